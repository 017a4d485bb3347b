"""Latin letters for other writing: a text goes in, the same in lower-case ASCII comes out where a letter is known.

Greek and Cyrillic letters and the special letters of Latin alphabets are known; others stay as they are. The tables
are our own and always the same, so that two machines never read a name differently."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from typing import NamedTuple

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

_MAN = word_set(
    "mr mister sir lord herr monsieur senor don signor king prince duke baron uncle father brother"
)
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
