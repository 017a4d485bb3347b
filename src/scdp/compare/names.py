"""Names of people and companies: texts go in, the words that identify come out."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from scdp.compare.languages import word_set, words_of

if TYPE_CHECKING:
    from scdp.texts import WordLists

# Words beyond these are not looked at: the time to match words is exponential in the fewer.
MOST_WORDS = 10

_MAN = word_set("mr mister sir lord herr monsieur senor signor king prince duke baron uncle father brother")
_WOMAN = word_set(
    "mrs ms miss madam madame mademoiselle lady frau fraulein senora senorita sra srta signora signorina queen "
    "princess duchess baroness aunt mother sister dame mme mlle"
)
# Titles that are names too: they count as such in front of two words or more.
_NAMES_TOO = word_set(
    "king prince duke baron uncle father brother queen princess duchess baroness aunt mother sister dame judge major "
    "lord lady general miss"
)
_TITLES = _MAN | _WOMAN | word_set(
    "dr prof professor doctor rev reverend hon captain capt colonel col major general gen lieutenant lt sergeant sgt "
    "president senator judge dipl ing mag sr"
)  # fmt: skip
# Those that are words of other texts too: titles of a person with two names or more.
_LONG_TITLES = word_set(
    "brigadier maj admiral adm commander cmdr corporal cpl private honorable honourable hon rt pastor bishop rabbi "
    "imam cardinal governor gov justice congressman congresswoman ambassador dott med"
)
_DEGREES = word_set("phd md dds esq esquire mba msc bsc")
# Degrees and honours that end a name of two words or more, and those that do so after a comma alone.
_HONOURS = word_set("cbe obe kbe dbe mbe cpa cfa dvm dmd bsn msn lcsw facs faap frcs csc usmc usaf usn ret emeritus")
_AFTER_COMMA = _DEGREES | _HONOURS | word_set("rn jd pe qc kc frs llb llm meng edd lpn pmp cfp dphil psyd pharmd")
_PARTICLES = word_set(
    "van von der den de del della di da do dos das du la le los las el al bin ibn ben zu zum zur ter ten af av "
    "und and of the"
)
# Particles that a surname alone begins with; others in front may be given names.
_LEADING = word_set("van von de the of und and")
_SUFFIXES = {"jr": 1, "junior": 1, "sr": 2, "senior": 2, "ii": 3, "iii": 4, "iv": 5, "2nd": 3, "3rd": 4}
_SPECIAL = _TITLES | _LONG_TITLES | _DEGREES | _HONOURS | _PARTICLES | _SUFFIXES.keys()
_SMALL_WORDS = word_set("the and of for und et y de der die das la le les el")
_LEGAL_FORMS = word_set(
    "inc incorporated ltd limited llc llp lp plc corp corporation co company gmbh mbh ag kg kgaa ohg ug se sa sas sarl "
    "sasu eurl nv bv cv vof oy oyj ab as asa aps spa srl snc sl slu slp sp zoo spzoo spolka kft zrt rt doo dd ad ood "
    "eood as sro kk yk pty pte bhd sdn pvt pbc pc pllc ev eg"
)
# Forms that are no word of other texts; they may have words after them, such as a place.
_CLEAR_FORMS = word_set("inc incorporated ltd llc llp plc corp gmbh sarl srl pty oyj")
_USUAL_AT_END = _CLEAR_FORMS | word_set("limited corporation ag kg sa bv nv oy")
# Forms that are usually in front.
_FORMS_IN_FRONT = word_set("pt ooo oao zao pao sarl sasu eurl ab kk")
_DOTTED = re.compile(r"(?<![^\W_])(?:[^\W\d_]\.\s?){2,}[^\W\d_]?(?![^\W_])")
_PARTS_OF_TEXT = re.compile(r"[^\W\d_]+")
# Surnames that are no initials where capitals end a name: "Wei XU".
_SHORT_SURNAMES = word_set("an ai bo do fu gu he ho hu ko le li lu ma oh ou su wu xu ye yi yu")
_CAPITAL_INITIALS = re.compile(r"\b[B-DF-HJ-NP-TV-XZ]{2,3}\b")
# At the end of a name two capitals are initials too if one is a vowel: "Smith JA".
_INITIALS = re.compile(_CAPITAL_INITIALS.pattern + r"|(?<=\w[ ,])[A-Z]{2}(?=\W*$)")


class PersonName(NamedTuple):
    """The words of a name in order; `sex` 1 = man, 2 = woman, `suffix` 1 = junior, ...; 0 = not said."""

    words: tuple[str, ...]
    sex: int = 0
    suffix: int = 0


def parse_person_name(text: str, in_text: bool = False) -> PersonName | None:
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
    return parse_full_name(text, in_text)


def parse_full_name(text: str, in_text: bool = False) -> PersonName | None:
    """A name with titles, suffixes, particles, initials or marks.

    Titles count in front and suffixes at the end, particles between words: elsewhere they are names, such as those of
    Stephen King, Ben Smith and Tuan Le. With `in_text`, one word after "King" or "Judge" is enough.
    """
    if not text.isupper():
        text = (_CAPITAL_INITIALS if in_text else _INITIALS).sub(_parted, text)
    parts = [found for part in text.split(",") if (found := words_of(part))]
    several = bool(parts) and sum(word not in _PARTICLES for word in parts[0]) > 1
    after = [part for part in parts[1:] if _is_after(part, several)]
    parts = [part for part in parts if part not in after]
    suffix = next((_SUFFIXES[word] for part in after for word in part if word in _SUFFIXES), 0)
    sex, words = 0, []
    # "Smith, John" is turned round.
    for part in [*parts[1:], *parts[:1]]:
        sex = sex or _take_titles(part, in_text)
        suffix = suffix or _take_suffix(part)
        words += part
    sex = sex or _take_titles(words, in_text)
    words = _without_particles(words, text)
    return PersonName(tuple(words[:MOST_WORDS]), sex, suffix) if words else None


def _is_after(part: list[str], several: bool) -> bool:
    """Whether what stands after a comma are suffixes and degrees; with dots these are no initials after two names."""
    if all(word in _SUFFIXES or word in _DEGREES for word in part):
        return True
    return several and ("".join(part) in _AFTER_COMMA or all(word in _AFTER_COMMA for word in part))


def _parted(found: re.Match[str]) -> str:
    """Initials one by one, unless they are a degree or, after a first and a last name, "JR"."""
    letters, before = found.group(), found.string[: found.start()].split()
    at_end = found.string[found.end() :].strip(" .")[:1] in ("", ",")
    short = letters.lower()
    kept = short in _DEGREES or short in _SHORT_SURNAMES or (short in _SUFFIXES and (short == "ii" or len(before) > 1))
    kept = kept or (short in _HONOURS and len(before) > 1)
    return letters if at_end and before and kept else " ".join(letters)


def _take_titles(words: list[str], in_text: bool) -> int:
    """Take titles away from the front, where a word is left; the sex that the first with one tells."""
    sex = 0
    if not in_text and len(words) > 3 and words[0] == "the" and words[1] in _LONG_TITLES:
        words.pop(0)
    while len(words) > 1 and _is_title(words, in_text):
        word = words.pop(0)
        sex = sex or (1 if word in _MAN else 2 if word in _WOMAN else 0)
    return sex


def _is_title(words: list[str], in_text: bool) -> bool:
    if words[0] in _TITLES:
        return len(words) > 2 or in_text or words[0] not in _NAMES_TOO
    # In texts they begin the names of other things too.
    return len(words) > 2 and not in_text and words[0] in _LONG_TITLES


def _take_suffix(words: list[str]) -> int:
    """Take suffixes and degrees away from the end, where a word is left; what the last suffix is."""
    suffix = 0
    if len(words) > 3 and words[-2:] == ["ph", "d"]:
        words[-2:] = ["phd"]
    while len(words) > 1 and (
        words[-1] in _SUFFIXES or words[-1] in _DEGREES or (len(words) > 2 and words[-1] in _HONOURS)
    ):
        suffix = _SUFFIXES.get(words.pop(), suffix)
    return suffix


def _without_particles(words: list[str], text: str) -> list[str]:
    """Words without particles inside, and without those that a surname begins with."""
    if len(words) < 2:
        return words
    leads = words[0] in _PARTICLES and _is_leading(words, text)
    return [*words[: 0 if leads else 1], *(word for word in words[1:-1] if word not in _PARTICLES), words[-1]]


def _is_leading(words: list[str], text: str) -> bool:
    """Whether the first word is no given name: a small letter tells in "van Gogh", a capital in "Van Morrison"."""
    mixed = not (text.islower() or text.isupper())
    if mixed and words[0] in _PARTS_OF_TEXT.findall(text):
        return True
    alone = len(words) == 2 or words[1] not in _PARTICLES
    return words[0] in _LEADING and not (words[0] == "van" and mixed and alone)


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

    def list_tokens(self) -> tuple[Sequence[Any], NDArray[np.int32], NDArray[np.int64]]:
        """The words, those of each name, and where each name's start."""
        from scdp.texts import make_sets

        return list(self.lists.words), *make_sets(self.lists.ids, self.lists.starts)

    def __getitem__(self, place: Any) -> Any:
        if isinstance(place, slice):
            return [self[k] for k in range(*place.indices(len(self)))]
        return PersonName(self.lists.words_of(range(len(self))[place]), *self.said[place].tolist())


def parse_person_names(texts: Sequence[str]) -> tuple[NDArray[np.int32], NameList]:
    """Distinct names in the order of appearance, and the place of each text among them, -1 where there is no word.

    What `parse_person_name` gives for each text; plain ones are parsed in a kernel.
    """
    from scdp.texts import PlainWords, WordLists, compute_offsets, number_lists, take_lists

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
    starts = compute_offsets(counts)
    codes, first = number_lists(ids, starts, said[:, 0] * np.int64(len(_SUFFIXES) + 1) + said[:, 1])
    ids, starts = take_lists(ids, starts, first)
    # Of the words, those that a name has, in ascending order.
    every = list(number)
    used = sorted(np.flatnonzero(np.bincount(ids, minlength=len(every))).tolist(), key=every.__getitem__)
    place = np.zeros(len(every), dtype=np.int32)
    place[used] = np.arange(len(used))
    return codes, NameList(WordLists([every[k] for k in used], place[ids], starts), said[first])


def parse_company(text: str) -> tuple[str, ...] | None:
    """The words of a company's name without legal forms at its end, and in front where that is usual.

    Example
    -------
    >>> parse_company("The Wonka Foods S.A."), parse_company("Wonka-Foods, Ltd")
    (('wonka', 'foods'), ('wonka', 'foods'))
    """
    found = _company_words(text)
    words = [word for word in found if word not in _SMALL_WORDS]
    if len(words) > 1 and words[0] in _FORMS_IN_FRONT:
        words = words[1:]
    while len(words) > 1 and words[-1] in _LEGAL_FORMS:
        words.pop()
    words = [*words[:1], *(word for word in words[1:] if word not in _CLEAR_FORMS)] or found
    return tuple(words[:MOST_WORDS]) or None


def _company_words(text: str) -> list[str]:
    joined = _DOTTED.sub(lambda found: re.sub(r"[.\s]", "", found.group()) + " ", text)
    return words_of(joined.replace("&", " "))


def has_legal_form(text: str) -> bool:
    """Whether a legal form, which is no word of other texts, ends a name or stands before its last word."""
    return any(word in _USUAL_AT_END for word in _company_words(text)[1:][-2:])


# Words of venues that tell nothing, and those that many have.
_NO_WORDS_OF_VENUES = word_set("proc proceedings annual the of on in and for de la")
_SORTS_OF_VENUES = word_set(
    "int intl international conference conf symposium symp workshop journal j trans transactions acm ieee"
)
LONGEST_ACRONYM = 8


class Venue(NamedTuple):
    """The words of a journal or a conference, the one that may be an acronym, and first letters of all words.

    `fewest` is how many of these letters an acronym of it has at least.
    """

    words: tuple[str, ...]
    acronym: str
    initials: str
    fewest: int


def parse_venue(text: str) -> Venue | None:
    """The parts of a venue without years and numbers; None where there is no word.

    Example
    -------
    >>> parse_venue("Proc. of the 19th VLDB Conference, 1993")
    Venue(words=('vldb', 'conference'), acronym='vldb', initials='otvc', fewest=3)
    """
    found = [word for word in words_of(text) if not word[0].isdigit()]
    words = [word for word in found if word not in _NO_WORDS_OF_VENUES] or found
    core = [word for word in words if word not in _SORTS_OF_VENUES]
    acronym = core[0] if len(core) == 1 and 3 <= len(core[0]) <= LONGEST_ACRONYM else ""
    initials = initials_of([word for word in found if word not in ("proc", "proceedings")])
    return Venue(tuple(words[:MOST_WORDS]), acronym, initials, max(3, (len(core) + 1) // 2)) if words else None


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
    words = parsed.words
    first, last = words[0], words[-1]
    if len(last) == 1 < len(first):
        # "Auer PJ": the initials come last.
        n_names = max(place for place, word in enumerate(words) if len(word) > 1) + 1
        first, last = words[n_names], words[n_names - 1]
    return last if len(words) == 1 else f"{first[0]} {last}"
