"""Names: Latin letters for other writing, parts of names, and given names that one person may go by.

Greek and Cyrillic letters and the special letters of Latin alphabets are known; others stay as they are. The tables are
our own and always the same, so that two machines never read a name differently.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from scdp.texts import WordLists

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
_groups: dict[str, frozenset[int]] = {}


def use_nicknames(groups: Iterable[Iterable[str]]) -> None:
    """Replace the table of nicknames by other groups of names, for this process.

    Parameters
    ----------
    groups
        Names of one person each, in lower-case Latin letters; a name may be in several groups.

    Example
    -------
    >>> use_nicknames([("peggy", "margaret")])
    >>> use_nicknames(default_nicknames())
    """
    found: dict[str, set[int]] = {}
    for place, group in enumerate(groups):
        for name in group:
            found.setdefault(name, set()).add(place)
    _groups.clear()
    _groups.update((name, frozenset(places)) for name, places in found.items())


def default_nicknames() -> list[tuple[str, ...]]:
    """The groups of the table that is in use at the start.

    Returns
    -------
    list of tuples of names

    Example
    -------
    >>> any({"robert", "bob"} <= set(group) for group in default_nicknames())
    True
    """
    return [tuple(line.split()) for line in _TABLE.strip().splitlines()]


def nickname_groups(name: str) -> frozenset[int]:
    """The numbers of the groups that a name is in."""
    return _groups.get(name, frozenset())


use_nicknames(default_nicknames())


_LATIN = {
    "ß": "ss", "æ": "ae", "œ": "oe", "ø": "o", "ł": "l", "đ": "d", "ð": "d", "þ": "th", "ı": "i", "ħ": "h",
    "ŋ": "ng", "ĸ": "k", "ŧ": "t", "ə": "e", "ƒ": "f",
}  # fmt: skip
_GREEK = {
    "α": "a", "β": "v", "γ": "g", "δ": "d", "ε": "e", "ζ": "z", "η": "i", "θ": "th", "ι": "i", "κ": "k", "λ": "l",
    "μ": "m", "ν": "n", "ξ": "x", "ο": "o", "π": "p", "ρ": "r", "σ": "s", "ς": "s", "τ": "t", "υ": "y", "φ": "f",
    "χ": "ch", "ψ": "ps", "ω": "o",
}  # fmt: skip
_CYRILLIC = {
    "а": "a", "б": "b", "в": "v", "г": "g", "д": "d", "е": "e", "ж": "zh", "з": "z", "и": "i", "й": "i", "к": "k",
    "л": "l", "м": "m", "н": "n", "о": "o", "п": "p", "р": "r", "с": "s", "т": "t", "у": "u", "ф": "f", "х": "kh",
    "ц": "ts", "ч": "ch", "ш": "sh", "щ": "shch", "ъ": "", "ы": "y", "ь": "", "э": "e", "ю": "yu", "я": "ya",
    "є": "ye", "і": "i", "ї": "yi", "ґ": "g", "ў": "u", "ђ": "dj", "ј": "j", "љ": "lj", "њ": "nj", "ћ": "c",
    "џ": "dz", "ѓ": "g", "ќ": "k", "ѕ": "dz",
}  # fmt: skip
# Apostrophes join ("O'Brien"), other marks part.
_APOSTROPHES = dict.fromkeys(map(ord, "'’‘`´ʼ"))
_LETTERS = str.maketrans({**_LATIN, **_GREEK, **_CYRILLIC})
_PARTS = re.compile(r"[^\W_]+")


def to_latin(text: str) -> str:
    """The text in lower case, without accents, in Latin letters where these are known.

    Example
    -------
    >>> to_latin("Łukasz Müller"), to_latin("Иванов")
    ('lukasz muller', 'ivanov')
    """
    text = text.lower()
    if text.isascii():
        return text
    bare = "".join(c for c in unicodedata.normalize("NFKD", text) if not unicodedata.combining(c))
    return unicodedata.normalize("NFC", bare.translate(_LETTERS))


def words_of(text: str) -> list[str]:
    """The words of a text in Latin letters: runs of letters and digits; an apostrophe does not part them."""
    return _PARTS.findall(to_latin(text).translate(_APOSTROPHES))


def word_set(words: str) -> frozenset[str]:
    """The words of a table that is written as one text."""
    return frozenset(words.split())


# Words beyond these are not looked at: the time to match words is exponential in the fewer.
MOST_WORDS = 10

_MAN = word_set("mr mister sir lord herr monsieur senor don signor king prince duke baron uncle father brother")
_WOMAN = word_set(
    "mrs ms miss madam madame mademoiselle lady frau fraulein senora senorita signora signorina queen princess "
    "duchess baroness aunt mother sister dame mme mlle"
)
_TITLES = _MAN | _WOMAN | word_set(
    "dr prof professor doctor rev reverend hon captain capt colonel col major general gen lieutenant lt sergeant sgt "
    "president senator judge dipl ing phd md dds esq esquire mag mba msc bsc"
)  # fmt: skip
_PARTICLES = word_set(
    "van von der den de del della di da do dos das du la le los las el al bin ibn ben zu zum zur ter ten af av "
    "und and of the"
)
_SUFFIXES = {"jr": 1, "junior": 1, "sr": 2, "senior": 2, "ii": 3, "iii": 4, "iv": 5, "2nd": 3, "3rd": 4}
_SPECIAL = _TITLES | _PARTICLES | _SUFFIXES.keys()
_SMALL_WORDS = word_set("the and of for und et y de der die das la le les el")
_LEGAL_FORMS = word_set(
    "inc incorporated ltd limited llc llp lp plc corp corporation co company gmbh mbh ag kg kgaa ohg ug se sa sas sarl "
    "sasu eurl nv bv cv vof oy oyj ab as asa aps spa srl snc sl slu slp sp zoo spzoo spolka kft zrt rt doo dd ad ood "
    "eood as sro kk yk pty pte bhd sdn pvt pbc pc pllc ev eg"
)
_CLEAR_FORMS = word_set(
    "inc incorporated ltd limited llc llp plc corp corporation gmbh ag kg sa sarl bv nv spa srl oy pty"
)
_DOTTED = re.compile(r"(?<![^\W_])(?:[^\W\d_]\.\s?){2,}[^\W\d_]?(?![^\W_])")
_CAPITAL_INITIALS = re.compile(r"\b[B-DF-HJ-NP-TV-XZ]{2,3}\b")


class PersonName(NamedTuple):
    """The words of a name in order; `sex` 1 = man, 2 = woman, `suffix` 1 = junior, ...; 0 = not said."""

    words: tuple[str, ...]
    sex: int = 0
    suffix: int = 0


def parse_person_name(text: str) -> PersonName | None:
    """The parts of a person's name; None where there is no word.

    Example
    -------
    >>> parse_person_name("Dr. van der Berg, Peter Jr.")
    PersonName(words=('peter', 'berg'), sex=0, suffix=1)
    """
    # Most names are plain words, and a table may have a million of them.
    if text.isascii() and (text.istitle() or text.islower() or text.isupper()):
        plain = text.lower().split()
        if "".join(plain).isalpha() and _SPECIAL.isdisjoint(plain):
            return PersonName(tuple(plain[:MOST_WORDS]))
    return parse_full_name(text)


def parse_full_name(text: str) -> PersonName | None:
    """A name with titles, suffixes, particles, initials or marks."""
    if not text.isupper():
        text = _CAPITAL_INITIALS.sub(lambda found: " ".join(found.group()), text)
    last, comma, first = text.partition(",")
    found = words_of(last)
    if comma:
        # "Smith, John" is turned round; "Smith, Jr." has nothing to turn round.
        found = [*words_of(first), *found]
    sex = next((1 if word in _MAN else 2 for word in found if word in _MAN or word in _WOMAN), 0)
    suffix = next((_SUFFIXES[word] for word in found if word in _SUFFIXES), 0)
    words = [word for word in found if word not in _TITLES and word not in _SUFFIXES]
    words = [word for word in words if word not in _PARTICLES] or words or found
    return PersonName(tuple(words[:MOST_WORDS]), sex, suffix) if words else None


@dataclass(frozen=True, eq=False)
class NameList(Sequence[PersonName]):
    """Names as lists of words; `said` (name, 2) are sex and suffix."""

    lists: WordLists
    said: NDArray[np.int8]

    @classmethod
    def of(cls, names: Sequence[PersonName]) -> NameList:
        from scdp.texts import WordLists

        if isinstance(names, NameList):
            return names
        said = np.array([(name.sex, name.suffix) for name in names], dtype=np.int8).reshape(-1, 2)
        return cls(WordLists.of([name.words for name in names]), said)

    def __len__(self) -> int:
        return len(self.said)

    def __getitem__(self, place: Any) -> Any:
        if isinstance(place, slice):
            return [self[k] for k in range(*place.indices(len(self)))]
        return PersonName(self.lists.words_of(range(len(self))[place]), *self.said[place].tolist())


def parse_person_names(texts: Sequence[str]) -> tuple[NDArray[np.int32], NameList]:
    """Distinct names in the order of appearance, and the place of each text among them, -1 where there is no word.

    What `parse_person_name` gives for each text; plain ones are parsed in a kernel.
    """
    from scdp.texts import PlainWords, WordLists, number_lists, offsets_of, take_lists

    plain = PlainWords.of(texts, MOST_WORDS).without(_SPECIAL)
    counts, others = plain.counts.copy(), np.flatnonzero(plain.counts < 0)
    parsed = [parse_person_name(texts[k]) or PersonName(()) for k in others.tolist()]
    number = dict(zip(plain.words, range(len(plain.words)), strict=True))
    more = [number.setdefault(word, len(number)) for name in parsed for word in name.words]
    said = np.zeros((len(texts), 2), dtype=np.int8)
    said[others] = np.array([name[1:] for name in parsed], dtype=np.int8).reshape(-1, 2)
    counts[others] = [len(name.words) for name in parsed]
    ids = np.empty(counts.sum(), dtype=np.int32)
    is_plain = np.repeat(plain.counts >= 0, counts)
    ids[is_plain], ids[~is_plain] = plain.ids, more
    starts = offsets_of(counts)
    codes, first = number_lists(ids, starts, said[:, 0] * np.int64(len(_SUFFIXES) + 1) + said[:, 1])
    ids, starts = take_lists(ids, starts, first)
    # Of the words, those that a name has, in ascending order.
    every = list(number)
    used = sorted(np.flatnonzero(np.bincount(ids, minlength=len(every))).tolist(), key=every.__getitem__)
    place = np.zeros(len(every), dtype=np.int32)
    place[used] = np.arange(len(used))
    return codes, NameList(WordLists([every[k] for k in used], place[ids], starts), said[first])


def parse_company(text: str) -> tuple[str, ...] | None:
    """The words of a company's name without legal forms; all of them where nothing else is left.

    Example
    -------
    >>> parse_company("The Wonka Foods S.A."), parse_company("Wonka-Foods, Ltd")
    (('wonka', 'foods'), ('wonka', 'foods'))
    """
    joined = _DOTTED.sub(lambda found: re.sub(r"[.\s]", "", found.group()) + " ", text)
    found = words_of(joined.replace("&", " "))
    words = [word for word in found if word not in _LEGAL_FORMS and word not in _SMALL_WORDS] or found
    return tuple(words[:MOST_WORDS]) or None


def has_legal_form(text: str) -> bool:
    """Whether a legal form, which is no word of other texts, ends a name or stands before its last word."""
    joined = _DOTTED.sub(lambda found: re.sub(r"[.\s]", "", found.group()) + " ", text)
    return any(word in _CLEAR_FORMS for word in words_of(joined)[1:])


def initials_of(words: Sequence[str]) -> str:
    """The first letters of the words."""
    return "".join(word[0] for word in words)


def author_key(name: str) -> str:
    """By what one author is recognised in lists: the first initial and the last word.

    Example
    -------
    >>> author_key("Auer, Peter"), author_key("P. Auer")
    ('p auer', 'p auer')
    """
    parsed = parse_person_name(name)
    if parsed is None:
        return ""
    first, last = parsed.words[0], parsed.words[-1]
    if len(last) == 1 < len(first):
        # "Auer P": the initial comes last.
        first, last = last, first
    return last if len(parsed.words) == 1 else f"{first[0]} {last}"
