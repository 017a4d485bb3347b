"""Words, q-grams, lists, acronyms and codes: what two texts share of them, counted or weighed by how rare it is."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from scdp._typing import Features, Integers
from scdp.compare.cells import Tokens, abbreviation, split_members, split_names
from scdp.compare.languages import Letters, Lexicon, NameGroups, number_groups, to_latin, words_of
from scdp.compare.names import NameList, PersonName, Venue, author_key, initials_of
from scdp.compare.scorers import PairScorer, in_threads

if TYPE_CHECKING:
    from scdp.compare.alignment import KeptCosts, Rules
    from scdp.texts import WordLists

# A code inside a text has so many letters and digits at least; one of digits alone needs more.
SHORTEST_CODE, SHORTEST_NUMBER = 3, 4
SHORTEST_STEM = 5
MOST_CODES = 200
# The run of digits by which codes of several forms are said to be shared.
LONG_RUN = 5
# A weak form of a code, such as one without the letters at its end, says less than the whole.
WEAK_SHARE = 0.7
WEAK = "~"
LONGEST_PREFIX = 5

_DIGITS = re.compile(r"\d+")
_PIECES = re.compile(r"[0-9a-z]+(?:[-/.][0-9a-z]+)*")
_MEASURE = re.compile(
    r"\d+(?:\.\d+)?(?:x\d+)*(?:st|nd|rd|th|in|inch|inches|ft|feet|mm|cm|m|km|gb|mb|tb|kb|g|kg|lb|lbs|oz|ml|l|w|kw|v|a|ah|mah|"
    r"hz|khz|mhz|ghz|mp|mbps|gbps|bit|btu|dpi|rpm|pc|pk|pack|port|ports|way|x|k|p|i|s|d|hr|hrs|min|yr|yrs|cu|sq|watt|"
    r"watts|volt|volts|channel|disc|piece|speed|series)?"
)  # fmt: skip
_TRAILING_LETTERS = re.compile(r"[a-z]{1,3}$")


def parse_code(text: str) -> str | None:
    """Letters and digits of a code in lower case, without spaces and marks.

    Example
    -------
    >>> parse_code("C74 6AC"), parse_code("CRM-0010303")
    ('c746ac', 'crm0010303')
    """
    plain = text.replace(" ", "").replace("-", "")
    return plain.lower() if plain.isascii() and plain.isalnum() else "".join(words_of(text)) or None


def code_tokens(code: str) -> tuple[str, ...]:
    """The longest run of digits without leading zeros if it is long, so that "CRM-0010303" shares it with "10303"."""
    runs = [run.lstrip("0") for run in _DIGITS.findall(code)]
    longest = max(runs, key=len, default="")
    return (longest if len(longest) >= LONG_RUN else code,)


class CodeScorer(PairScorer):
    """0 equal; 0.1 where one ends the other; 0.2 one edit; else from 0.5 to 1 by how much of the start is the same."""

    def __init__(self, vocabulary: Sequence[str]) -> None:
        self._letters = Letters.of(vocabulary)

    def pairs(self, left: Integers, right: Integers, workers: int) -> Features:
        from scdp.compare.alignment import fill_codes

        fill = partial(fill_codes, self._letters.letters, self._letters.starts)
        return in_threads(fill, left, right, workers).astype(np.float32)


def parse_codes_in_text(text: str) -> tuple[str, ...] | None:
    """The codes inside a text: pieces with a digit that are no measure, joined over marks; then their weak forms.

    Weak forms, marked "~", are the code itself, the code without the letters at its end, joined with a short word next
    to it, and its long run of digits: others may write it so.

    Example
    -------
    >>> parse_codes_in_text("Camera DSC-T700/B")
    ('dsct700b', 't700', '~dsct700', '~dsct700b')
    """
    pieces = _PIECES.findall(to_latin(text))
    found: dict[str, None] = {}
    weak: set[str] = set()
    for place, piece in enumerate(pieces):
        parts = re.split(r"[-/.]", piece)
        whole = "".join(parts)
        if not _is_code(whole):
            continue
        found[whole] = None
        found.update(dict.fromkeys(part for part in parts if len(parts) > 1 and _is_part(part)))
        before = pieces[place - 1] if place and _is_short_word(pieces[place - 1]) else ""
        after = pieces[place + 1] if place + 1 < len(pieces) and _is_short_word(pieces[place + 1]) else ""
        weak.update(form for each in {whole, before + whole, whole + after} for form in _weak_forms(each))
    return tuple([*found, *sorted(WEAK + form for form in weak)][:MOST_CODES]) or None


def _is_code(form: str) -> bool:
    if not any(map(str.isdigit, form)) or (_MEASURE.fullmatch(form) and not form.isdigit()):
        return False
    return len(form) >= (SHORTEST_NUMBER if form.isdigit() else SHORTEST_CODE)


def _is_part(form: str) -> bool:
    return _is_code(form) and (not form.isdigit() or len(form) >= LONG_RUN)


def _is_short_word(piece: str) -> bool:
    return piece.isalpha() and len(piece) <= LONGEST_PREFIX


def _weak_forms(code: str) -> set[str]:
    forms = {code, _TRAILING_LETTERS.sub("", code)}
    return {form for form in forms if len(form) >= SHORTEST_STEM} | {
        run for run in _DIGITS.findall(code) if len(run) >= LONG_RUN
    }


class CodesInTextScorer(PairScorer):
    """Below 0.5 where a code is shared, 0 where it is rare; above where none is, 1 where both have rare ones.

    A code is as rare as can be, 1, if two records have it, and less by the cube of the nats it carries. Where both also
    have codes that are not shared, 0.3 of the less rare one is added.
    """

    def __init__(self, tokens: Tokens) -> None:
        top = np.log(max(tokens.n_records / 2, np.e))
        self._strong = np.array([not text.startswith(WEAK) for text in tokens.texts], dtype=bool)
        self._rarity = np.clip(tokens.nats / top, 0.0, 1.0) ** 3 * np.where(self._strong, 1.0, WEAK_SHARE)
        self._tokens = tokens

    def pairs(self, left: Integers, right: Integers, workers: int) -> Features:
        from scdp.compare.kernels import fill_shared_codes

        fill = partial(fill_shared_codes, self._tokens.ids, self._tokens.starts, self._rarity, self._strong)
        return in_threads(fill, left, right, workers).astype(np.float32)


Values = NDArray[np.float64]
# So many texts are handled in kernels; of fewer, these would take longer to load.
FEWEST_AT_ONCE = 5_000
Q = 3
# The longest part of a text whose q-grams are counted.
MOST_LETTERS_OF_TEXT = 2_000
SEX_CLASH, SUFFIX_CLASH = 0.5, 0.3
# Texts whose words are the same run of letters, and a word that has the first letters of the others'.
JOINED, INITIALS = 0.02, 0.2
IS_ACRONYM, SAME_ACRONYM, VENUE_ACRONYM = 0.1, 0.4, 0.2


def qgrams(text: str) -> set[str]:
    """The runs of three letters of a text with one space at either end.

    Example
    -------
    >>> sorted(qgrams("to be"))
    [' be', ' to', 'be ', 'o b', 'to ']
    """
    padded = f" {text[:MOST_LETTERS_OF_TEXT]} "
    return {padded[place : place + Q] for place in range(len(padded) - Q + 1)}


class SharedScorer(PairScorer):
    """A function of the weights that two values share and of those each has."""

    def __init__(self, tokens: Tokens, weights: Values, formula: Callable[[Values, Values, Values], Values]) -> None:
        self._tokens, self._weights, self._formula = tokens, weights, formula
        everyone = np.arange(len(tokens.starts) - 1, dtype=np.int64)
        self._sizes = self._shared(everyone, everyone, 1)

    def pairs(self, left: Integers, right: Integers, workers: int) -> Features:
        shared = self._shared(left, right, workers)
        return self._formula(shared, self._sizes[left], self._sizes[right]).astype(np.float32)

    def _shared(self, left: Integers, right: Integers, workers: int) -> Values:
        from scdp.compare.kernels import fill_shared

        fill = partial(fill_shared, self._tokens.ids, self._tokens.starts, self._weights)
        return in_threads(fill, left, right, workers)


def tfidf_scorer(tokens: Tokens) -> SharedScorer:
    """1 - cosine of the vectors that have log(1 + N / count) for each token."""
    return SharedScorer(tokens, np.log1p(tokens.n_records / tokens.counts) ** 2, _cosine)


def _cosine(shared: Values, left: Values, right: Values) -> Values:
    return np.clip(1.0 - shared / np.sqrt(left * right), 0.0, 1.0)


def rare_words_scorer(tokens: Tokens) -> SharedScorer:
    """1 - the share of the words of either that both have, each by log(1 + N / count)."""
    return SharedScorer(tokens, np.log1p(tokens.n_records / tokens.counts), _jaccard)


def _jaccard(shared: Values, left: Values, right: Values) -> Values:
    return np.clip(1.0 - shared / (left + right - shared), 0.0, 1.0)


def overlap_scorer(tokens: Tokens) -> SharedScorer:
    """1 - the mean of the shares of either list that the other has."""
    return SharedScorer(tokens, np.ones(len(tokens.texts)), _overlap)


def _overlap(shared: Values, left: Values, right: Values) -> Values:
    return np.clip(1.0 - 0.5 * (shared / left + shared / right), 0.0, 1.0)


class SoftTokensScorer(PairScorer):
    """Words weighed by rarity, of which near ones count by their similarity: 1 - what either has in the other.

    That is the root of the product of the two shares, or with `contained` the larger of them.
    """

    def __init__(self, tokens: Tokens, contained: bool) -> None:
        self._tokens, self._contained = tokens, contained
        self._lexicon = Lexicon.of(tokens.texts)
        self._weights = np.log1p(tokens.n_records / tokens.counts)
        everyone = np.arange(len(tokens.starts) - 1, dtype=np.int64)
        self._sizes = self._covered(everyone, everyone)[0]

    def pairs(self, left: Integers, right: Integers, workers: int) -> Features:
        # In one order, so that a pair has the same distance whichever comes first.
        low, high = np.minimum(left, right), np.maximum(left, right)

        def fill(a: Integers, b: Integers, out: Values) -> None:
            of_a, of_b = self._covered(a, b)
            shares = of_a / self._sizes[a], of_b / self._sizes[b]
            out[:] = np.maximum(*shares) if self._contained else np.sqrt(shares[0] * shares[1])

        return np.clip(1.0 - in_threads(fill, low, high, workers), 0.0, 1.0).astype(np.float32)

    def _covered(self, left: Integers, right: Integers) -> tuple[Values, Values]:
        from scdp.compare.alignment import fill_covered

        of_left, of_right = np.empty(len(left)), np.empty(len(left))
        tokens = self._tokens
        fill_covered(self._lexicon, tokens.ids, tokens.starts, self._weights, left, right, of_left, of_right)
        return of_left, of_right


class WordTable:
    """Lists of words ready to be matched by `rules`.

    `joined` says whether texts are near whose words are the same run of letters, and `acronyms` whether a word is near
    to words whose first letters it has. `nicknames` are taken in place of our own, where words are names.
    """

    def __init__(
        self, lists: WordLists, rules: Rules, joined: bool, acronyms: bool, nicknames: NameGroups | None = None
    ) -> None:
        from scdp.texts import join_words, number_lists

        self._lexicon = Lexicon.of(lists.words, number_groups(nicknames) if rules.nickname < 1 else None)
        self._starts, self._ids = lists.starts, lists.ids
        self._rules = rules
        # Of threads that are done; each takes one that no other has.
        self._kept: list[KeptCosts] = []
        self._runs: NDArray[np.int32] | None = None
        self._acronyms: NDArray[np.int32] | None = None
        if not joined:
            return
        if not acronyms and len(lists.starts) > FEWEST_AT_ONCE:
            letters, begins = join_words(self._lexicon.letters, self._lexicon.at, lists.ids, lists.starts)
            self._runs = number_lists(letters, begins)[0]
            return
        every = list(map(lists.words.__getitem__, lists.ids.tolist()))
        each = [every[start:stop] for start, stop in pairwise(lists.starts.tolist())]
        runs = list(map("".join, each))
        distinct = dict.fromkeys(runs)
        codes = dict(zip(distinct, range(len(distinct)), strict=True))
        self._runs = np.fromiter(map(codes.__getitem__, runs), np.int32, len(runs))
        if acronyms:
            short = [codes.get(initials_of(words), -1) if len(words) > 1 else -1 for words in each]
            self._acronyms = np.array(short, dtype=np.int32)

    @classmethod
    def of(cls, lists: Sequence[Sequence[str]], rules: Rules) -> WordTable:
        """As the kinds of comparison use it: runs of letters for names, acronyms for companies."""
        from scdp.compare.alignment import ADDRESS, COMPANY
        from scdp.texts import WordLists

        return cls(WordLists.of(lists), rules, joined=rules is not ADDRESS, acronyms=rules is COMPANY)

    def pairs(self, left: Integers, right: Integers, workers: int) -> Values:
        """Distances in [0, 1]; NaN where a list is empty."""
        from scdp.compare.alignment import KeptCosts, fill_matched

        rules, lexicon = self._rules, self._lexicon

        def fill(a: Integers, b: Integers, out: Values) -> None:
            try:
                kept = self._kept.pop()
            except IndexError:
                kept = KeptCosts.empty(len(self._starts) - 1)
            fill_matched(lexicon, rules, self._ids, self._starts, a, b, kept, out)
            self._kept.append(kept)

        # In one order, so that sums of costs are the same to the last bit whichever comes first.
        left, right = np.minimum(left, right), np.maximum(left, right)
        out = in_threads(fill, left, right, workers)
        runs, short = self._runs, self._acronyms
        if runs is not None:
            near = np.flatnonzero(runs[left] == runs[right])
            out[near] = np.minimum(out[near], np.where(left[near] == right[near], 0.0, JOINED))
        if runs is not None and short is not None:
            near = ((short[left] >= 0) & (short[left] == runs[right])) | (
                (short[right] >= 0) & (short[right] == runs[left])
            )
            out[near] = np.minimum(out[near], INITIALS)
        return out


class PersonScorer(PairScorer):
    """Words matched with words; titles that contradict each other, and Jr. and Sr., keep names apart."""

    def __init__(self, vocabulary: Sequence[PersonName], nicknames: NameGroups | None = None) -> None:
        from scdp.compare.alignment import PERSON

        names = NameList.of(vocabulary)
        self._words = WordTable(names.lists, PERSON, joined=True, acronyms=False, nicknames=nicknames)
        # In a byte each: pairs look them up all over the table.
        said = names.said
        self._clashes = [(said[:, k].copy(), (SEX_CLASH, SUFFIX_CLASH)[k]) for k in np.flatnonzero(said.any(0))]

    def pairs(self, left: Integers, right: Integers, workers: int) -> Features:
        distances = self._words.pairs(left, right, workers)
        for said, least in self._clashes:
            a, b = said[left], said[right]
            clash = (a != b) & (a > 0) & (b > 0)
            distances[clash] = np.maximum(distances[clash], least)
        return distances.astype(np.float32)


class WordsScorer(PairScorer):
    """Words of companies matched with words."""

    def __init__(self, vocabulary: Sequence[tuple[str, ...]]) -> None:
        from scdp.compare.alignment import COMPANY

        self._words = WordTable.of(vocabulary, COMPANY)

    def pairs(self, left: Integers, right: Integers, workers: int) -> Features:
        return self._words.pairs(left, right, workers).astype(np.float32)


class VenueScorer(PairScorer):
    """Words matched with words, which may be shortened; an acronym is near to the words it is of."""

    def __init__(self, vocabulary: Sequence[Venue]) -> None:
        from scdp.compare.alignment import VENUE
        from scdp.texts import WordLists

        self._words = WordTable(WordLists.of([venue.words for venue in vocabulary]), VENUE, joined=True, acronyms=False)
        both = Letters.of([*(venue.acronym for venue in vocabulary), *(venue.initials for venue in vocabulary)])
        n_venues = len(vocabulary)
        self._letters, self._short, self._initials = both.letters, both.starts, both.starts[n_venues:]
        self._fewest = np.array([venue.fewest for venue in vocabulary], dtype=np.int64)

    def pairs(self, left: Integers, right: Integers, workers: int) -> Features:
        from scdp.compare.alignment import fill_acronyms

        distances = self._words.pairs(left, right, workers)
        fill = partial(fill_acronyms, self._letters, self._short, self._initials, self._fewest)
        near = in_threads(fill, left, right, workers) > 0
        distances[near] = np.minimum(distances[near], VENUE_ACRONYM)
        return distances.astype(np.float32)


def parse_members(text: str, separator: str | None) -> tuple[str, ...] | None:
    """The members of a list, each once, in plain words.

    Example
    -------
    >>> parse_members("Rock; jazz;ROCK", ";")
    ('rock', 'jazz')
    """
    parts = split_names(text) if separator is None else split_members(text, separator)
    members = (" ".join(words_of(part)) for part in parts)
    return tuple(dict.fromkeys(filter(None, members))) or None


def parse_people(text: str, separator: str | None) -> tuple[str, ...] | None:
    """The people of a list, each by the first initial and the last name.

    Example
    -------
    >>> parse_people("Auer, P., Freund, Y., and Schapire, R.", None)
    ('p auer', 'y freund', 'r schapire')
    """
    parts = split_names(text) if separator is None else split_members(text, separator)
    keys = map(author_key, parts)
    return tuple(dict.fromkeys(filter(None, keys))) or None


def parse_acronym(text: str) -> tuple[str, str] | None:
    """The letters and digits of a text, and those of its acronym.

    Example
    -------
    >>> parse_acronym("United States of America"), parse_acronym("U.S.A.")
    (('unitedstatesofamerica', 'usa'), ('usa', 'usa'))
    """
    letters = "".join(words_of(text))
    return (letters, "".join(words_of(abbreviation(text)))) if letters else None


class AcronymScorer(PairScorer):
    """0 for the same letters, then one is the acronym of the other, then the same acronym; else 1."""

    def __init__(self, vocabulary: Sequence[tuple[str, str]]) -> None:
        places: dict[str, int] = {}
        self._codes = np.array(
            [[places.setdefault(text, len(places)) for text in pair] for pair in vocabulary], dtype=np.int64
        ).reshape(-1, 2)
        self._long = np.array([len(acronym) > 1 for _, acronym in vocabulary])

    def pairs(self, left: Integers, right: Integers, workers: int) -> Features:
        (text_a, short_a), (text_b, short_b) = self._codes[left].T, self._codes[right].T
        one_way = (text_a == short_b) & self._long[right]
        other_way = (text_b == short_a) & self._long[left]
        levels: list[tuple[NDArray[Any], float]] = [
            (text_a == text_b, 0.0),
            (one_way | other_way, IS_ACRONYM),
            ((short_a == short_b) & self._long[left], SAME_ACRONYM),
        ]
        return np.select([holds for holds, _ in levels], [value for _, value in levels], 1.0).astype(np.float32)
