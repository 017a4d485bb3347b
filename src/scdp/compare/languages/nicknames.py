"""Given names that one person may go by. The table is our own, so that two machines never read a name differently."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import lru_cache

from scdp.compare.languages.letters import to_latin
from scdp.errors import InputError

# Names that one person may go by, group by group.
NameGroups = tuple[tuple[str, ...], ...]
MOST_NAMES = 50_000

# One group a line; the first is the full name. A name may be in several groups.
_TABLE = """
abigail abby gail
abraham abe abram
adrian ade
agnes aggie nessie
albert al bert bertie
alexander alex alec sandy xander sasha aleksandr alexandre alessandro alejandro
alexandra alex sandra sandy lexi sasha
alfred al alf alfie fred freddie
alice allie ally
amanda mandy
andrew andy drew andreas andre andrea andrei
angela angie
ann anne anna annie nan nancy hannah ana
anthony tony antonio anton antoine
arthur art artie arturo
barbara barb babs barbie
benjamin ben benny benji
bernard bernie barney bernd bernhard
bradley brad
bridget biddy bridie brigitte
caroline carol carrie carolyn carolina
catherine cathy kate katie kathy cat kit katherine kathryn katharina catalina ekaterina katarzyna
charles charlie chuck chas carl carlos karl carlo
charlotte lottie charlie
christina chris tina chrissie christine kristina
christopher chris kit topher kristof
clarence clare
cynthia cindy
daniel dan danny
david dave davy davey
deborah deb debbie debby debra
dennis denny
donald don donny
dorothy dot dottie dolly dora
douglas doug
edmund ed eddie ned ted
edward ed eddie ned ted teddy eduard eduardo edouard
edwin ed eddie win
eleanor ellie nell nora ella elena
elizabeth liz beth betty lizzie eliza lisa elise elsie libby bess bessie betsy elisabeth isabel isabella elizaveta
emily em emmy emilia
emma em emmy
eugene gene evgeny
evelyn eve evie
florence flo flossie florrie
frances fran fanny francie francesca
francis frank fran francisco francesco francois franz franciszek
frederick fred freddie freddy fritz friedrich federico frederic
gabriel gabe
gabrielle gabby gabriella
george georgie jorge georg georges giorgio jerzy
gerald gerry jerry
geraldine gerry
gertrude gertie trudy
gilbert gil bert
giovanni gianni nino
gregory greg grzegorz
gwendolyn gwen
harold harry hal
harriet hattie
helen nell ellen lena helena elena
henry hank harry hal henri heinrich enrique
herbert herb bert bertie
howard howie
ignatius iggy ignacio nacho
irene rene
isaac ike zac
jacob jake jacques jakob
jacqueline jackie
james jim jimmy jamie jem jaime santiago
jane janie jenny janet
jason jay
jeffrey jeff geoff geoffrey
jennifer jen jenny jenn
jeremy jerry jem
jessica jess jessie
joan joanie
joanna jo joanne
john johnny jack jon jonny johan johann juan jean ian sean hans jan ivan giovanni johannes
jonathan jon jonny nathan
joseph joe joey jo jose josef giuseppe jozef
josephine jo josie
joshua josh
judith judy jude
julia julie jules juliana
karen kari
kenneth ken kenny
kimberly kim
lawrence larry laurie laurence lorenzo
leonard len lenny leo leon
leslie les
lewis lew lou louis luis luigi ludwig
lillian lily lil
louise lou louisa
lucille lucy lucia lucie
madeline maddie madeleine
margaret maggie meg peg peggy marge margie madge greta rita daisy gretchen margarita marguerite malgorzata
maria mary mia marie mariya
marilyn lyn
mark marc marcus marco marek
martha mattie patty
martin marty
mary molly polly mamie may marie maria miriam
matilda tilly mattie
matthew matt matty matthias mateo matteo mateusz
maureen mo
maximilian max
megan meg
michael mike mick mickey micky michel miguel mikhail michal misha
mildred millie
mitchell mitch
nancy nan
natalie nat natalia natasha
nathaniel nat nathan nate
nicholas nick nicky nico nicolas klaus mikolaj nikolai
nicole nicky
norman norm
oliver ollie
olivia liv livvy
oscar ozzie
pamela pam
patricia pat patty tricia trish patsy
patrick pat paddy rick
paul pablo paolo pavel pawel pauly
penelope penny
peter pete pedro pierre pietro piotr petr
philip phil pip felipe philippe
priscilla cilla
rachel ray
raymond ray
rebecca becky becca
reginald reg reggie
richard dick rick ricky rich richie ricardo riccardo
robert bob bobby rob robbie bert roberto rupert
roderick rod rick
rodney rod
roger rodge
roland rollie rolly
ronald ron ronnie
rosemary rose rosie
russell russ rusty
ruth ruthie
samantha sam sammy
samuel sam sammy
sarah sally sadie sara
sean shaun shawn
sebastian seb bastian
sharon shari
sheila shelagh
sidney sid
simon si
solomon sol
sophia sophie sofia
stanley stan
stephanie steph stevie
stephen steve steven stevie stefan esteban etienne stephan
stuart stu stewart
susan sue susie suzanne suzy susanna
sylvester sly
sylvia syl
teresa terry tess tessa theresa
terence terry
theodore ted teddy theo fyodor
thomas tom tommy tomas tomasz
timothy tim timmy
tobias toby
valerie val
veronica ronnie
victor vic viktor
victoria vicky vic tori
vincent vince vinny vincenzo
virginia ginny ginger
vladimir vova volodya
wallace wally
walter walt wally
warren ren
wendy wen
wilfred wilf fred
william will bill billy willy liam guillermo wilhelm guillaume guglielmo
winifred winnie freda
winston win
yvonne evie
zachary zach zack
"""


def default_nicknames() -> NameGroups:
    """The groups of our own table.

    Returns
    -------
    tuple of tuples of names

    Example
    -------
    >>> any({"robert", "bob"} <= set(group) for group in default_nicknames())
    True
    """
    return tuple(tuple(line.split()) for line in _TABLE.strip().splitlines())


def read_groups(given: Iterable[Iterable[str]] | Mapping[str, Iterable[str]]) -> NameGroups:
    """Groups of names in lower-case Latin letters, from lists or from the short forms of each full name.

    Example
    -------
    >>> read_groups({"Margaret": ["Peggy", "Greta"]}), read_groups([("Peggy", "Margaret")])
    ((('margaret', 'peggy', 'greta'),), (('peggy', 'margaret'),))
    """
    lists = [[full, *short] for full, short in given.items()] if isinstance(given, Mapping) else list(given)
    found = []
    for names in lists:
        if isinstance(names, str) or not all(isinstance(name, str) for name in names):
            raise InputError(f"nicknames must be lists of names, not {names!r}")
        group = tuple(dict.fromkeys(to_latin(name.strip()) for name in names))
        wrong = next((name for name in group if not name.isalnum()), None)
        if wrong is not None:
            raise InputError(f"nicknames have {wrong!r}; each must be one word, without spaces and marks")
        found.append(group)
    if not found or sum(map(len, found)) > MOST_NAMES:
        raise InputError(f"nicknames must be some groups of names, and at most {MOST_NAMES:,} names")
    return tuple(found)


@lru_cache(maxsize=8)
def number_groups(groups: NameGroups | None = None) -> Mapping[str, frozenset[int]]:
    """The numbers of the groups that each name is in; of our own table where none are given."""
    found: dict[str, set[int]] = {}
    for place, group in enumerate(default_nicknames() if groups is None else groups):
        for name in group:
            found.setdefault(name, set()).add(place)
    return {name: frozenset(places) for name, places in found.items()}


def nickname_groups(name: str) -> frozenset[int]:
    """The numbers of the groups of our own table that a name is in."""
    return number_groups().get(name, frozenset())
