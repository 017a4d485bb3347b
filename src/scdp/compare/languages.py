"""What depends on languages: letters, months, quantities, nicknames and how names sound; no table depends on a machine.

Greek, Cyrillic and special letters are written in Latin ones; others stay as they are. Quantities are numbers with
currencies, multiples and units, read as one number. A `Lexicon` has words as kernels take them.
"""

from __future__ import annotations

import math
import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from scdp.errors import InputError

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


# Those of English, German, French, Spanish, Italian, Portuguese, Dutch, Scandinavian, Polish, Russian and Turkish.
_NAMES = (
    "jan january januar janvier enero ene gennaio janeiro januari styczen stycznia yanvar yanvarya ocak",
    "feb february februar fevrier fev febrero febbraio fevereiro februari luty lutego fevral fevralya subat",
    "mar march marz mars marzo marco maerz mrz maart marzec marca mart marta",
    "apr april avril avr abril abr aprile kwiecien kwietnia aprel aprelya nisan",
    "may mai mayo maggio maio mei maj maja maya mayis",
    "jun june juni juin junio giugno junho czerwiec czerwca iyun iyunya haziran",
    "jul july juli juillet juil julio luglio julho lipiec lipca iyul iyulya temmuz",
    "aug august aout agosto ago augustus augusti sierpien sierpnia avgust avgusta agustos",
    "sep sept september septembre septiembre settembre setembro wrzesien wrzesnia sentyabr sentyabrya eylul",
    "oct okt october oktober octobre octubre ottobre outubro out pazdziernik pazdziernika oktyabr oktyabrya ekim",
    "nov november novembre noviembre novembro listopad listopada noyabr noyabrya kasim",
    "dec dez december dezember decembre diciembre dic dicembre dezembro grudzien grudnia dekabr dekabrya aralik",
)
MONTHS = {name: number for number, names in enumerate(_NAMES, start=1) for name in names.split()}


_UNIT = re.compile(r"\s*([a-z]+|[\"'])", re.IGNORECASE)
_AMOUNT = re.compile(r"[-+(]?\s*[^\w\s.,()+-]{0,3}\s*[-+]?(\d[\d.,'’\s]*\d|\d)")
_TIMES = {
    "k": 1e3,
    "m": 1e6,
    "mio": 1e6,
    "mln": 1e6,
    "million": 1e6,
    "thousand": 1e3,
    "mn": 1e6,
    "bn": 1e9,
    "billion": 1e9,
}
# Grams, centimetres, millilitres, megabytes, megahertz and watts.
UNITS = {
    "mg": 1e-3, "g": 1.0, "gr": 1.0, "gram": 1.0, "grams": 1.0, "kg": 1e3, "kgs": 1e3, "kilo": 1e3, "kilos": 1e3,
    "lb": 453.592, "lbs": 453.592, "oz": 28.3495, "ounce": 28.3495, "ounces": 28.3495,
    "mm": 0.1, "cm": 1.0, "m": 100.0, "meter": 100.0, "meters": 100.0, "metres": 100.0, "km": 1e5,
    "in": 2.54, "inch": 2.54, "inches": 2.54, '"': 2.54, "ft": 30.48, "feet": 30.48, "foot": 30.48, "'": 30.48,
    "mi": 160934.4, "miles": 160934.4, "ml": 1.0, "cl": 10.0, "l": 1e3, "ltr": 1e3, "liter": 1e3, "litre": 1e3,
    "kb": 1 / 1024, "mb": 1.0, "gb": 1024.0, "tb": 1024.0**2, "hz": 1e-6, "khz": 1e-3, "mhz": 1.0, "ghz": 1e3,
    "w": 1.0, "kw": 1e3,
}  # fmt: skip
_FEET_AND_INCHES = re.compile(
    r"\s*(\d+)\s*(?:'|ft\.?|feet)\s*(\d{1,2}(?:\.\d+)?)\s*(?:\"|''|in\.?|inches)?\s*", re.IGNORECASE
)


def parse_amount(text: str) -> float | None:
    """The first number in a text, with currency signs, thousands and decimals of either style, "k" and "million".

    Units of one sort are made one: lengths are centimetres, weights grams, memory megabytes.

    Example
    -------
    >>> parse_amount("$1,234.50"), parse_amount("1.234,50 EUR"), parse_amount("2.5k"), parse_amount("1.5 kg")
    (1234.5, 1234.5, 2500.0, 1500.0)
    """
    found = _AMOUNT.search(text)
    if found is None:
        return None
    feet = _FEET_AND_INCHES.fullmatch(text)
    if feet is not None:
        return float(feet.group(1)) * UNITS["ft"] + float(feet.group(2)) * UNITS["in"]
    digits = _plain(re.sub(r"[\s'’]", "", found.group(1)))
    sign = -1.0 if re.search(r"[-(]", text[found.start() : found.start(1)]) else 1.0
    value = sign * float(digits) * _times(text[found.end() :])
    return value if math.isfinite(value) else None


def _times(after: str) -> float:
    """What the word or mark behind a number multiplies it by; "5m" is five million, and "5 m" are metres."""
    unit = _UNIT.match(after)
    word = unit.group(1).lower() if unit else ""
    metres = word == "m" and after.startswith(" m")
    return _TIMES[word] if word in _TIMES and not metres else UNITS.get(word, 1.0)


def _plain(digits: str) -> str:
    """The number with a point for its decimals: the last mark is one if it is the only one of its sort."""
    marks = [c for c in digits if c in ".,"]
    if not marks:
        return digits
    last = marks[-1]
    after = len(digits) - digits.rfind(last) - 1
    thousands = marks.count(last) > 1 or (after == 3 and last == "," and len(set(marks)) == 1)
    whole, fraction = (digits, "") if thousands else (digits[: -after - 1], digits[-after:])
    return re.sub(r"[.,]", "", whole) + ("." + fraction if fraction else "")


# Names that one person may go by, group by group.
NameGroups = tuple[tuple[str, ...], ...]
MOST_NAMES = 50_000

# Given names that one person may go by, group by group; the first is the full name. A name may be in several groups.
_TABLE = """
abigail abby gail; abraham abe abram; adrian ade; agnes aggie nessie; albert al bert bertie; alexander alex alec sandy
xander sasha aleksandr alexandre alessandro alejandro; alexandra alex sandra sandy lexi sasha; alfred al alf alfie
fred freddie; alice allie ally; amanda mandy; andrew andy drew andreas andre andrea andrei; angela angie; ann anne
anna annie nan nancy hannah ana; anthony tony antonio anton antoine; arthur art artie arturo; barbara barb babs
barbie; benjamin ben benny benji; bernard bernie barney bernd bernhard; bradley brad; bridget biddy bridie brigitte;
caroline carol carrie carolyn carolina; catherine cathy kate katie kathy cat kit katherine kathryn katharina catalina
ekaterina katarzyna; charles charlie chuck chas carl carlos karl carlo; charlotte lottie charlie; christina chris tina
chrissie christine kristina; christopher chris kit topher kristof; clarence clare; cynthia cindy; daniel dan danny;
david dave davy davey; deborah deb debbie debby debra; dennis denny; donald don donny; dorothy dot dottie dolly dora;
douglas doug; edmund ed eddie ned ted; edward ed eddie ned ted teddy eduard eduardo edouard; edwin ed eddie win;
eleanor ellie nell nora ella elena; elizabeth liz beth betty lizzie eliza lisa elise elsie libby bess bessie betsy
elisabeth isabel isabella elizaveta; emily em emmy emilia; emma em emmy; eugene gene evgeny; evelyn eve evie; florence
flo flossie florrie; frances fran fanny francie francesca; francis frank fran francisco francesco francois franz
franciszek; frederick fred freddie freddy fritz friedrich federico frederic; gabriel gabe; gabrielle gabby gabriella;
george georgie jorge georg georges giorgio jerzy; gerald gerry jerry; geraldine gerry; gertrude gertie trudy; gilbert
gil bert; giovanni gianni nino; gregory greg grzegorz; gwendolyn gwen; harold harry hal; harriet hattie; helen nell
ellen lena helena elena; henry hank harry hal henri heinrich enrique; herbert herb bert bertie; howard howie; ignatius
iggy ignacio nacho; irene rene; isaac ike zac; jacob jake jacques jakob; jacqueline jackie; james jim jimmy jamie jem
jaime santiago; jane janie jenny janet; jason jay; jeffrey jeff geoff geoffrey; jennifer jen jenny jenn; jeremy jerry
jem; jessica jess jessie; joan joanie; joanna jo joanne; john johnny jack jon jonny johan johann juan jean ian sean
hans jan ivan giovanni johannes; jonathan jon jonny nathan; joseph joe joey jo jose josef giuseppe jozef; josephine jo
josie; joshua josh; judith judy jude; julia julie jules juliana; karen kari; kenneth ken kenny; kimberly kim; lawrence
larry laurie laurence lorenzo; leonard len lenny leo leon; leslie les; lewis lew lou louis luis luigi ludwig; lillian
lily lil; louise lou louisa; lucille lucy lucia lucie; madeline maddie madeleine; margaret maggie meg peg peggy marge
margie madge greta rita daisy gretchen margarita marguerite malgorzata; maria mary mia marie mariya; marilyn lyn; mark
marc marcus marco marek; martha mattie patty; martin marty; mary molly polly mamie may marie maria miriam; matilda
tilly mattie; matthew matt matty matthias mateo matteo mateusz; maureen mo; maximilian max; megan meg; michael mike
mick mickey micky michel miguel mikhail michal misha; mildred millie; mitchell mitch; nancy nan; natalie nat natalia
natasha; nathaniel nat nathan nate; nicholas nick nicky nico nicolas klaus mikolaj nikolai; nicole nicky; norman norm;
oliver ollie; olivia liv livvy; oscar ozzie; pamela pam; patricia pat patty tricia trish patsy; patrick pat paddy
rick; paul pablo paolo pavel pawel pauly; penelope penny; peter pete pedro pierre pietro piotr petr; philip phil pip
felipe philippe; priscilla cilla; rachel ray; raymond ray; rebecca becky becca; reginald reg reggie; richard dick rick
ricky rich richie ricardo riccardo; robert bob bobby rob robbie bert roberto rupert; roderick rod rick; rodney rod;
roger rodge; roland rollie rolly; ronald ron ronnie; rosemary rose rosie; russell russ rusty; ruth ruthie; samantha
sam sammy; samuel sam sammy; sarah sally sadie sara; sean shaun shawn; sebastian seb bastian; sharon shari; sheila
shelagh; sidney sid; simon si; solomon sol; sophia sophie sofia; stanley stan; stephanie steph stevie; stephen steve
steven stevie stefan esteban etienne stephan; stuart stu stewart; susan sue susie suzanne suzy susanna; sylvester sly;
sylvia syl; teresa terry tess tessa theresa; terence terry; theodore ted teddy theo fyodor; thomas tom tommy tomas
tomasz; timothy tim timmy; tobias toby; valerie val; veronica ronnie; victor vic viktor; victoria vicky vic tori;
vincent vince vinny vincenzo; virginia ginny ginger; vladimir vova volodya; wallace wally; walter walt wally; warren
ren; wendy wen; wilfred wilf fred; william will bill billy willy liam guillermo wilhelm guillaume guglielmo; winifred
winnie freda; winston win; yvonne evie; zachary zach zack
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
    return tuple(tuple(group.split()) for group in _TABLE.split(";"))


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


# Shorter words sound alike too often.
SHORTEST_SOUND = 4
_TWO_VOWELS = (("ae", "a"), ("oe", "o"), ("ue", "u"))
# Each is replaced in turn. No pattern reaches beyond a line.
SOUNDS = (
    (r"^(?:kn|gn|pn)", "n"), (r"^wr", "r"), (r"^ps", "s"), (r"^wh", "w"), (r"^x", "s"),
    (r"sch|sh", "5"), (r"tch", "4"), (r"ch(?=[rl])|ck|q", "k"), (r"ch", "4"), (r"ph|v", "f"), (r"th|dt", "t"),
    (r"gh(?=[^aeiouy]|$)", ""), (r"gh", "g"), (r"c(?=[eiy])|z", "s"), (r"c", "k"), (r"x", "ks"),
    (r"[ae][iyj]", "7"), (r"mps", "ms"), (r"au|aw|ou|ow", "8"), (r"ee|ie|ea|y", "i"), (r"oo", "u"), (r"ij", "7"),
    (r"(?<=.)h", ""), (r"(?<=..)e$", ""), (r"(?<=[78])e(?=[rln]|$)", ""),
    (r"(.)\1+", r"\1"),
)  # fmt: skip
_PATTERNS = tuple((re.compile(pattern, re.MULTILINE), sound) for pattern, sound in SOUNDS)


def spelling_key(word: str) -> str:
    """The same for "mueller" and "muller", which is what is left of the umlaut.

    Example
    -------
    >>> spelling_key("mueller"), spelling_key("joerg")
    ('muller', 'jorg')
    """
    for two, one in _TWO_VOWELS:
        word = word.replace(two, one)
    return word


def sound_keys(words: Sequence[str]) -> list[str]:
    """The same for names that sound alike; "" where a word is short or holds more than Latin letters.

    All words are written line by line and every sound is replaced in all of them at once.

    Example
    -------
    >>> sound_keys(["meyer", "maier", "moore"])
    ['m7r', 'm7r', 'mur']
    >>> sound_keys(["philips", "fillips", "lee"])
    ['filips', 'filips', '']
    """
    if not words:
        return []
    lines = [word if len(word) >= SHORTEST_SOUND and word.isascii() and word.isalpha() else "" for word in words]
    text = "\n".join(lines)
    for pattern, sound in _PATTERNS:
        text = pattern.sub(sound, text)
    return text.split("\n")


def numbered_letters(texts: Sequence[Sequence[str]]) -> tuple[NDArray[Any], int]:
    """All texts one after another, their letters numbered from 0 in the smallest type that holds these."""
    parts = [_points(each) for each in texts]
    used = np.zeros(0x110000, dtype=bool)
    for part in parts:
        used[part] = True
    n_letters = int(used.sum())
    number = np.zeros(len(used), dtype=np.min_scalar_type(max(n_letters - 1, 0)))
    number[used] = np.arange(n_letters)
    return np.concatenate([number[:0], *(number[part] for part in parts)]), n_letters


def _points(texts: Sequence[str]) -> NDArray[np.uint32]:
    return np.frombuffer("".join(texts).encode("utf-32-le", "surrogatepass"), dtype=np.uint32)


def _held(letters: NDArray[Any], at: NDArray[np.int64]) -> NDArray[np.uint64]:
    """By word, the letters that it has, as bits."""
    bits = np.append(np.uint64(1) << (letters & 63).astype(np.uint64), np.uint64(0))
    return np.bitwise_or.reduceat(bits, at[:-1]) if len(at) > 1 else bits[:0]


class Letters(NamedTuple):
    """All texts one after another, and where each starts (one more entry than texts)."""

    letters: NDArray[Any]
    starts: NDArray[np.int64]

    @classmethod
    def of(cls, texts: Sequence[str]) -> Letters:
        starts = np.zeros(len(texts) + 1, dtype=np.int64)
        np.cumsum([len(text) for text in texts], out=starts[1:])
        return cls(numbered_letters([texts])[0], starts)


class Lexicon(NamedTuple):
    """Distinct words in ascending order: their letters, whether they hold a digit, their groups of nicknames.

    `held` are the letters that a word has, as bits; some letters may share a bit. `sounds` are numbers of how words
    sound, 0 where no other word sounds so.
    """

    letters: NDArray[Any]
    at: NDArray[np.int64]
    n_letters: int
    held: NDArray[np.uint64]
    digit: NDArray[np.bool_]
    group_at: NDArray[np.int64]
    groups: NDArray[np.int32]
    sounds: NDArray[np.int32]

    @classmethod
    def of(cls, words: Sequence[str], nicknames: Mapping[str, frozenset[int]] | None = None) -> Lexicon:
        """With `nicknames`, the groups of each given name, words are names: they may sound alike, too."""
        letters, n_letters = numbered_letters([words])
        at = _ends(list(map(len, words)))
        groups_of = nicknames or {}
        names = [] if nicknames is None else words
        # Two spellings of an umlaut are as near as a name and its nickname.
        spellings = _shared_keys(list(map(spelling_key, names)))
        groups = [
            [*sorted(groups_of.get(name, ())), *([-spelling] if spelling > 0 else [])]
            for name, spelling in zip(names, spellings, strict=True)
        ] or [[] for _ in words]
        sounds = _shared_keys(sound_keys(names)) if names else [0] * len(words)
        return cls(
            letters,
            at,
            max(n_letters, 1),
            _held(letters, at),
            np.array([any(map(str.isdigit, word)) for word in words], dtype=bool),
            _ends(list(map(len, groups))),
            np.array([group for each in groups for group in each], dtype=np.int32),
            np.array(sounds, dtype=np.int32),
        )


def _shared_keys(keys: Sequence[str]) -> list[int]:
    """A number from 1 for each key that several have, 0 for others and the empty one."""
    counts = Counter(keys)
    shared = (key for key, count in counts.items() if count > 1 and key)
    numbers = {key: number for number, key in enumerate(shared, start=1)}
    return [numbers.get(key, 0) for key in keys]


def _ends(sizes: Sequence[int]) -> NDArray[np.int64]:
    ends = np.zeros(len(sizes) + 1, dtype=np.int64)
    np.cumsum(sizes, out=ends[1:])
    return ends
