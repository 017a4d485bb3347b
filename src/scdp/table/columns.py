"""What a column looks like: its cells and its name go in, one of a few looks comes out, with examples and placeholders.

The cells decide. The name is a hint, in several languages, where cells alone leave it open.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from scdp.compare.amounts import parse_date, parse_pages
from scdp.compare.cells import cell_text, placeholder_key
from scdp.compare.content import has_street_word
from scdp.compare.languages import word_set
from scdp.compare.names import has_legal_form
from scdp.table import Records, forms

MOST, MANY, SOME, FEW = 0.9, 0.7, 0.3, 0.05
FEW_RECORDS = 20
# A category has at most so many values, and each is there so often on average.
CATEGORIES, TIMES, LONG_CATEGORY = 30, 10, 2.5
# Fewer different names than this are a category.
FEWEST_NAMES = 8
LONG_TEXT, LONG_WORDS = 40, 5
VERY_LONG_TEXT = 200
LONG_YEAR = 12
LONG_ADDRESS = 100
# Seconds since 1970 have so many digits.
LONG_TIMESTAMP = 9
# Distinct cells that are looked at; of more, those at even steps.
MOST_LOOKED_AT = 3_000
N_EXAMPLES = 3
LONGEST_EXAMPLE = 40

# Texts that stand for nothing wherever they are, and those that do if they are among the commonest.
_NOTHING = word_set("n/a #n/a n.a. null nan nil - -- --- . .. ? ?? ??? <na> <null> (null) none/unknown #null! \\n")
_MAYBE_NOTHING = word_set(
    "na none unknown unk missing undefined tbd tba blank empty not_available not_applicable not_known no_data "
    "unbekannt unk. inconnu desconocido keine x xx xxx xxxx 1900-01-01 01/01/1900 1970-01-01 123456789 "
    "123-45-6789 123-456-7890"
)
# Where they are rare: "test" may be a part of the data too.
_TESTS = word_set("test testing asdf dummy")
_NO_EMAIL = re.compile(r"(none|na|no|null|test|noemail|no-?reply|example|unknown|x+)@[\w-]+\.\w+")
_NO_DATE = re.compile(r"(?:0000|9999)(?:00|99){2}|(?:00|99){2}(?:0000|9999)")
# Where every other number is smaller than this share of it, 999 stands for nothing.
OUTSTANDING = 1 / 3
COMMON_ENOUGH, SHARE_ENOUGH = 2, 0.002


@dataclass(frozen=True)
class ColumnLook:
    """What a column looks like; `texts` are its cells without those of `missing`, which stand for nothing."""

    name: str
    look: str
    texts: tuple[str, ...]
    missing: tuple[str, ...]
    hints: frozenset[str]
    separator: str | None = None

    @property
    def examples(self) -> tuple[str, ...]:
        """A few of its cells, the commonest first."""
        common = [text for text, _ in Counter(self.texts).most_common(N_EXAMPLES)]
        return tuple(text if len(text) <= LONGEST_EXAMPLE else text[: LONGEST_EXAMPLE - 1] + "…" for text in common)

    @property
    def n_distinct(self) -> int:
        return len(set(self.texts))


def look_at(records: Records, name: str) -> ColumnLook:
    """What one column of records looks like."""
    texts = [text for cell in records[name] if (text := (cell_text(cell) or "").strip())]
    missing = _placeholders(texts)
    if missing:
        gone = set(map(placeholder_key, missing))
        texts = [text for text in texts if placeholder_key(text) not in gone]
    hints = forms.hints_of(name)
    look, separator = _look(_Cells(texts), hints)
    return ColumnLook(name, look, tuple(texts), missing, hints, separator)


def _placeholders(texts: Sequence[str]) -> tuple[str, ...]:
    """Texts of the column that stand for a missing cell."""
    counts = Counter(map(placeholder_key, texts))
    enough = max(COMMON_ENOUGH, SHARE_ENOUGH * len(texts))
    found = {
        key
        for key, count in counts.items()
        if key in _NOTHING
        or (count >= enough and (key.replace(" ", "_") in _MAYBE_NOTHING or _NO_EMAIL.fullmatch(key) or _is_blank(key)))
        or (key == "999" and count >= enough and _stands_out(key, counts))
        or (key in _TESTS and enough <= count <= FEW * len(texts))
    }
    first = {placeholder_key(text): text for text in reversed(texts) if placeholder_key(text) in found}
    return tuple(sorted(first.values())) if len(found) < len(counts) else ()


def _is_blank(key: str) -> bool:
    """Whether digits, whatever their marks, are all zeros, all nines, or a date of these."""
    bare = re.sub(r"[\s()/.+-]", "", key)
    alike = (len(bare) >= 3 and set(bare) == {"0"}) or (len(bare) >= 4 and set(bare) == {"9"})
    # An amount of nothing is a number.
    return (alike and not forms.DECIMAL.fullmatch(key)) or bool(_NO_DATE.fullmatch(bare))


def _stands_out(key: str, counts: Counter[str]) -> bool:
    """Whether other numbers are all much smaller."""
    others = [float(text.replace(",", "")) for text in counts if text != key and forms.NUMBER.fullmatch(text)]
    return bool(others) and max(others) < OUTSTANDING * float(key)


class _Cells:
    """Cells of a column, and what share of the distinct ones passes a test."""

    def __init__(self, texts: Sequence[str]) -> None:
        self.n_texts = len(texts)
        self.counts = Counter(texts)
        distinct = list(self.counts)
        self.distinct = distinct[:: max(1, len(distinct) // MOST_LOOKED_AT)]
        self.mean_length = sum(map(len, self.distinct)) / max(1, len(self.distinct))
        self.mean_words = sum(len(text.split()) for text in self.distinct) / max(1, len(self.distinct))

    @property
    def n_distinct(self) -> int:
        return len(self.counts)

    def share(self, holds: Callable[[str], object]) -> float:
        return sum(map(bool, map(holds, self.distinct))) / max(1, len(self.distinct))


def _look(cells: _Cells, hints: frozenset[str]) -> tuple[str, str | None]:
    """The look and, of a list, its separator."""
    if cells.n_distinct < 2:
        return ("constant" if cells.n_distinct else "empty"), None
    if "notes" in hints and cells.share(lambda text: " " in text) > SOME:
        return "notes", None
    look = _of_form(cells, hints)
    if look is not None:
        return look, None
    separator = _separator(cells, hints)
    if separator is not None:
        people = not separator or cells.share(lambda text: forms.lists_people(text, separator)) > MANY
        return ("people" if people else "list"), separator or None
    if _is_category(cells) and not _is_of_names(cells, hints):
        return "category", None
    if _is_phone(cells, hints):
        return "phone", None
    if _is_identifier(cells):
        return _key(hints), None
    return _text(cells, hints), None


def _of_form(cells: _Cells, hints: frozenset[str]) -> str | None:
    """The look of cells that tell it by their form: contacts, places, dates, lengths of time, numbers, pages."""
    for look, holds in _FORMATS:
        if cells.share(holds) > MANY:
            return look
    if "year" in hints and cells.mean_length <= LONG_YEAR and cells.share(forms.is_year) > MOST:
        return "year"
    dated = _date(cells, hints)
    if dated is not None:
        return dated
    if "pages" in hints and cells.share(parse_pages) > MANY and cells.share(_is_range) > SOME:
        return "pages"
    if _is_duration(cells, hints):
        return "duration"
    measured = cells.share(forms.is_measure)
    if measured > SOME and cells.share(lambda text: forms.is_measure(text) or forms.NUMBER.fullmatch(text)) > MOST:
        return "amount"
    amounts = cells.share(forms.is_amount)
    if amounts > MOST and (cells.share(forms.tells_amount) > FEW or "amount" in hints):
        return "amount"
    if cells.share(forms.NUMBER.fullmatch) <= MOST:
        return None
    seconds = "record time" in hints and cells.mean_length >= LONG_TIMESTAMP
    return "record time" if seconds else _number(cells, hints)


def _is_range(text: str) -> bool:
    found = parse_pages(text)
    return found is not None and found.last > 0


def _text(cells: _Cells, hints: frozenset[str]) -> str:
    """The look of cells that are texts."""
    if _is_address(cells, hints):
        return "address"
    keys = "key" in hints and cells.share(forms.is_key) > MANY
    if keys or (cells.share(forms.CODE.fullmatch) > MANY and cells.mean_words < 3):
        return "code"
    if "proper noun" in hints and cells.mean_words <= LONG_WORDS:
        return "proper noun"
    if "artist" in hints and cells.mean_words <= LONG_WORDS:
        return "name"
    if cells.share(has_legal_form) > 0.15 or ("company" in hints and cells.mean_length <= LONG_TEXT):
        return "company"
    if cells.share(forms.NAME.fullmatch) > MANY and "title" not in hints and cells.mean_words <= LONG_WORDS:
        look = _name(cells, hints)
        if look is not None:
            return look
    if cells.mean_length > VERY_LONG_TEXT:
        return "very long text"
    if cells.mean_length > LONG_TEXT or cells.mean_words > LONG_WORDS:
        return "text with codes" if cells.share(forms.has_code) > SOME else "long text"
    if cells.share(forms.has_code) > 0.5:
        return "text with codes"
    if "title" in hints and "venue" not in hints:
        return "title"
    if "venue" in hints:
        return "venue"
    return "word" if cells.mean_words < 1.3 else "short text"


def _is_address(cells: _Cells, hints: frozenset[str]) -> bool:
    """Numbers and streets; prose and products have words for streets too, but few numbers of houses."""
    if {"title", "full name", "company"} & hints or cells.mean_length > LONG_ADDRESS:
        return False
    if "address" in hints:
        numbered = cells.share(lambda text: re.search(r"\d", text) and re.search(r"[^\W\d_]{3}", text))
        return numbered > SOME or cells.share(has_street_word) > FEW
    if cells.mean_words > 2 * LONG_WORDS:
        return False
    housed = cells.share(lambda text: has_street_word(text) and forms.HOUSE_NUMBER.search(text))
    return housed > 0.4 and "name" not in hints and cells.share(forms.has_code) < SOME


def _name(cells: _Cells, hints: frozenset[str]) -> str | None:
    """The look of cells that are words without digits: names of people, places and things."""
    if "full name" in hints or {"first name", "last name"} <= hints:
        return "full name"
    for look in ("first name", "last name"):
        if look in hints:
            return look
    if {"place", "address"} & hints or cells.share(forms.TOWN_AND_STATE.fullmatch) > SOME:
        return "place"
    if cells.share(forms.has_given_name) > 0.15:
        return "first name" if cells.mean_words < 1.3 else "full name"
    return "name" if "name" in hints else None


def _number(cells: _Cells, hints: frozenset[str]) -> str:
    """The look of cells that are numbers: years, codes, amounts, parts of dates."""
    texts = [text for text in cells.distinct if forms.NUMBER.fullmatch(text)]
    values = [float(text.replace(",", "")) for text in texts]
    whole = all(value.is_integer() for value in values)
    for look, largest in (("latitude", 90), ("longitude", 360)):
        if look in hints and not whole and max(map(abs, values)) <= largest:
            return look
    if whole and sum(int(value) in forms.YEARS for value in values) > MOST * len(values) and "code" not in hints:
        return "year"
    for look, largest in (("month", 12), ("day", 31)):
        if look in hints and whole and min(values) >= 1 and max(values) <= largest:
            return look
    if whole and min(values) >= 0 and "phone" in hints:
        return "phone"
    if any("," in text for text in texts):
        return "amount"
    lengths = Counter(map(len, texts))
    fixed = lengths.most_common(1)[0][1] > MANY * len(texts) and min(map(len, texts)) > 3
    padded = any(text.startswith("0") and len(text) > 1 for text in texts)
    if whole and min(values) >= 0 and (fixed or padded or {"code", "key", "address"} & hints):
        return _key(hints) if _is_identifier(cells) else "code"
    if whole and _is_identifier(cells) and max(values) - min(values) < 2 * len(values):
        return "identifier"
    if _is_category(cells) and whole and cells.n_distinct <= 5:
        return "category"
    spread = sorted(map(abs, values))
    low, high = spread[len(spread) // 20], spread[-1 - len(spread) // 20]
    return "amount" if high > 20 * max(low, 1e-9) and high > 100 else "number"


def _key(hints: frozenset[str]) -> str:
    """Keys that are all different are left out, but for those that things have elsewhere: postcodes, ISBN, models."""
    return "code" if "key" in hints else "identifier"


def _date(cells: _Cells, hints: frozenset[str]) -> str | None:
    """Dates: year and month in most, or a year in most and a hint; "year" where a column of dates has years alone."""
    if cells.share(forms.DECIMAL.fullmatch) > FEW:
        return None
    dated = cells.share(forms.is_dated)
    if dated <= MANY:
        known = cells.share(lambda text: forms.is_short_date(text) and parse_date(text))
        if "date" not in hints or known <= MANY or cells.share(forms.NUMBER.fullmatch) >= MOST:
            return None
        if dated <= FEW:
            short = cells.share(lambda text: len(text) <= LONG_YEAR and forms.is_year(text))
            return "year" if short > MANY else None
    return "record time" if "record time" in hints else "date"


def _separator(cells: _Cells, hints: frozenset[str]) -> str | None:
    """What parts the members of lists; "" if they are written as in a bibliography, None if these are no lists."""
    if cells.share(forms.is_listed) > SOME:
        return ","
    if "list" in hints and "people" not in hints and _repeats_members(cells):
        return ","
    for mark in (";", "|"):
        if cells.share(partial(_holds, mark)) > SOME:
            return mark
    listed = cells.share(lambda text: "," in text or forms.BIBLIOGRAPHY.search(text))
    if listed < (SOME / 2 if "people" in hints else SOME):
        return None
    if cells.share(lambda text: forms.lists_people(text, ",")) > (MANY if "people" in hints else MOST):
        commas = cells.share(lambda text: text.count(",") > 1) > FEW or "people" in hints
        joined = cells.share(forms.BIBLIOGRAPHY.search)
        return "," if commas and joined < SOME / 2 else "" if "people" in hints else None
    if "people" in hints and cells.share(forms.BIBLIOGRAPHY.search) > SOME / 2:
        return ""
    return None


def _repeats_members(cells: _Cells) -> bool:
    """Whether cells are lists of members that other lists have too."""
    lists = [[part.strip().lower() for part in re.split("[,;|]", text)] for text in cells.distinct]
    members = [member for each in lists for member in each]
    total = sum(cells.counts[text] * len(each) for text, each in zip(cells.distinct, lists, strict=True))
    several = sum(len(each) > 1 for each in lists) > FEW * len(lists)
    return several and len(set(members)) < min(SOME * total, 0.8 * len(members))


def _holds(mark: str, text: str) -> bool:
    return mark in text


def _is_of_names(cells: _Cells, hints: frozenset[str]) -> bool:
    """Whether few values that are often there are names of people all the same."""
    if cells.share(forms.NAME.fullmatch) <= MANY or cells.n_distinct < FEWEST_NAMES:
        return False
    return bool({"first name", "last name", "full name"} & hints) or cells.share(forms.has_given_name) > 0.5


def _is_category(cells: _Cells) -> bool:
    often = cells.n_texts >= TIMES * cells.n_distinct and cells.n_texts >= FEW_RECORDS
    return often and cells.n_distinct <= CATEGORIES and cells.mean_words < LONG_CATEGORY


def _is_phone(cells: _Cells, hints: frozenset[str]) -> bool:
    if "key" in hints and "phone" not in hints:
        return False
    marked = cells.share(forms.is_marked_phone)
    return marked > (MANY if "phone" not in hints else 0.1) and cells.share(forms.is_phone) > MANY


def _is_identifier(cells: _Cells) -> bool:
    # All different, one word, with a digit: a key. Names and titles are all different too, but are many words
    # or have no digits; a measurement has a decimal point.
    all_different = cells.n_distinct == cells.n_texts >= FEW_RECORDS
    return all_different and cells.share(forms.is_key) > MOST


def _is_duration(cells: _Cells, hints: frozenset[str]) -> bool:
    """Numbers or times, some of which say their unit; with a hint none need say it."""
    if cells.share(lambda text: forms.is_timed(text) or forms.NUMBER.fullmatch(text)) <= MOST:
        return False
    return "duration" in hints or cells.share(forms.is_timed) > SOME


# Looks that the form of a cell tells by itself.
_FORMATS: tuple[tuple[str, Callable[[str], object]], ...] = (
    ("email", forms.EMAIL.fullmatch),
    ("url", forms.URL.fullmatch),
    ("coordinates", forms.is_place),
    ("amount", forms.tells_amount),
)
