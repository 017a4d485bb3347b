"""What a column looks like: its cells and its name go in, one of a few looks comes out, with examples and placeholders.

The cells decide. The name is a hint, in several languages, where cells alone leave it open.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from scdp.compare.amounts import parse_date, parse_duration, parse_place, parse_year
from scdp.compare.cells import cell_text, placeholder_key, year
from scdp.compare.content import has_street_word
from scdp.compare.names import has_legal_form, nickname_groups, to_latin, word_set, words_of
from scdp.compare.words import WEAK, parse_codes_in_text
from scdp.table.records import Records

MOST, MANY, SOME, FEW = 0.9, 0.7, 0.3, 0.05
FEW_RECORDS = 20
# A category has at most so many values, and each is there so often on average.
CATEGORIES, TIMES, LONG_CATEGORY = 30, 10, 2.5
# Fewer different names than this are a category.
FEWEST_NAMES = 8
LONG_TEXT, LONG_WORDS = 40, 5
VERY_LONG_TEXT = 200
LONG_DATE, LONG_YEAR = 30, 12
# Distinct cells that are looked at; of more, those at even steps.
MOST_LOOKED_AT = 3_000
N_EXAMPLES = 3
LONGEST_EXAMPLE = 40
YEARS = range(1500, 2100)

# Texts that stand for nothing wherever they are, and those that do if they are among the commonest.
_NOTHING = word_set("n/a #n/a n.a. null nan nil - -- --- . .. ? ?? ??? <na> <null> (null) none/unknown #null! \\n")
_MAYBE_NOTHING = word_set(
    "na none unknown unk missing undefined tbd tba blank empty not_available not_applicable not_known no_data "
    "unbekannt unk. inconnu desconocido keine x xx xxx xxxx 1900-01-01 01/01/1900 1970-01-01 123456789"
)
_NO_DATE_OR_CODE = re.compile(
    r"0{3,}|9{4,}|(?:0000|9999)[-/.](?:00|99)[-/.](?:00|99)|(?:00|99)[-/.](?:00|99)[-/.](?:0000|9999)"
)
COMMON_ENOUGH, SHARE_ENOUGH = 2, 0.002

_HINTS = {
    "first name": "first firstname fname given givenname forename vorname prenom nombre voornaam christian fn middle "
    "mname",
    "last name": "last lastname lname sur surname family familyname nachname nom apellido apellidos cognome "
    "achternaam ln maiden",
    "full name": "fullname person author actor director customer patient contact kunde speaker player owner",
    "name": "name names naam nome artist singer band label",
    "proper noun": "mention mentions entity noun nouns propn antecedent",
    "company": "company firm employer org organisation organization business firma societe empresa manufacturer brand "
    "maker publisher vendor supplier label studio club team restaurant shop store institution affiliation university",
    "date": "date dob birth birthdate born day datum geburtsdatum naissance released release created modified",
    "phone": "phone tel telephone mobile cell fax telefon telefono handy fon",
    "address": "address addr street strasse road adresse direccion calle rue indirizzo via straat",
    "place": "city town suburb place village county ort stadt ville ciudad region district country land "
    "birthplace location",
    "code": "zip postcode postal plz zipcode ssn soc sec id isbn issn doi ean upc sku asin code number no nr num "
    "account iban serial reference ref key passport licence license model",
    "amount": "price cost amount revenue salary income total preis prix precio umsatz value fee budget turnover "
    "balance",
    "duration": "length duration runtime time dauer laufzeit playtime running",
    "people": "authors author coauthors actors cast artists editors directors members writers names creators",
    "title": "title song track album book paper movie film headline product item subject venue journal "
    "booktitle conference work release",
    "venue": "venue journal booktitle conference proceedings series",
    "list": "genre genres category categories tag tags keyword keywords topic topics subjects languages countries",
    "notes": "note notes comment comments remark remarks memo bemerkung bemerkungen kommentar observaciones remarque",
    "origin": "part split fold source dataset partition subset origin src sample",
    "latitude": "lat latitude breitengrad breite",
    "longitude": "lon lng long longitude laengengrad laenge",
    "year": "year yr jahr annee ano by",
    "month": "month bm monat mois mes mo",
    "day": "day bd tag jour dia",
}
_HINT_WORDS = {look: word_set(words) for look, words in _HINTS.items()}

_NAME_PARTS = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])|[^\W\d_]+")
_NUMBER = re.compile(r"[-+]?(?:\d{1,3}(?:,\d{3})+|\d+)(?:\.\d+)?")
_DECIMAL = re.compile(r"[-+]?\d+\.\d+")
_MONEY = re.compile(
    r"(?:[$€£¥]|usd|eur|gbp|chf)\s*[-+]?\d[\d.,' ]*|[-+]?\d[\d.,' ]*\s*(?:[$€£¥]|usd|eur|gbp|chf)", re.IGNORECASE
)
_EMAIL = re.compile(r"[^@\s]+@[^@\s]+\.[^@\s]+")
_URL = re.compile(
    r"(?:[a-z]+://\S+|www\.\S+|[\w-]+(?:\.[\w-]+)*\.(?:com|org|net|edu|gov|io|de|uk|fr|co|eu)(?:/\S*)?)", re.IGNORECASE
)
_PHONE = re.compile(r"\+?[\d\s()./-]{7,20}(?:\s*(?:x|ext\.?)\s*\d+)?", re.IGNORECASE)
_PHONE_MARKS = re.compile(r"^\+|^00|^\(?0|\(\d+\)|\d[-/. ]\d")
_NAME = re.compile(r"[^\W\d_]+\.?(?:[ ,'’.-]+[^\W\d_]*\.?){0,5}")
_CODE = re.compile(r"(?=.*\d)[\w-]+(?:[ ./][\w-]+){0,2}")
_WORD = re.compile(r"[^\W\d_]+")
_BIBLIOGRAPHY = re.compile(r"\b(?:and|&)\b|&|[^\W\d_]{2,}, (?:[^\W\d_]\.[ -]?)+(?:,|$)", re.IGNORECASE)


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
    hints = hints_of(name)
    look, separator = _look(_Cells(texts), hints)
    return ColumnLook(name, look, tuple(texts), missing, hints, separator)


def hints_of(name: str) -> frozenset[str]:
    """What the name of a column hints at.

    Example
    -------
    >>> sorted(hints_of("fname_c1")), sorted(hints_of("dateOfBirth")), sorted(hints_of("x7"))
    (['first name'], ['date'], [])
    """
    words = {to_latin(part) for part in _NAME_PARTS.findall(name)} | {re.sub(r"[^a-z]", "", to_latin(name))}
    return frozenset(look for look, known in _HINT_WORDS.items() if words & known)


def _placeholders(texts: Sequence[str]) -> tuple[str, ...]:
    """Texts of the column that stand for a missing cell."""
    counts = Counter(map(placeholder_key, texts))
    enough = max(COMMON_ENOUGH, SHARE_ENOUGH * len(texts))
    found = {
        key
        for key, count in counts.items()
        if key in _NOTHING
        or (count >= enough and (key.replace(" ", "_") in _MAYBE_NOTHING or _NO_DATE_OR_CODE.fullmatch(key)))
    }
    first = {placeholder_key(text): text for text in reversed(texts) if placeholder_key(text) in found}
    return tuple(sorted(first.values())) if len(found) < len(counts) else ()


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
    for look, holds in _FORMATS:
        if cells.share(holds) > MANY:
            return look, None
    if "year" in hints and cells.mean_length <= LONG_YEAR and cells.share(_is_year) > MOST:
        return "year", None
    if _is_date(cells, hints):
        return "date", None
    if _is_duration(cells, hints):
        return "duration", None
    if cells.share(_NUMBER.fullmatch) > MOST:
        return _number(cells, hints), None
    separator = _separator(cells, hints)
    if separator is not None:
        people = not separator or cells.share(lambda text: _lists_people(text, separator)) > MANY
        return ("people" if people else "list"), separator or None
    if _is_category(cells) and not _is_of_names(cells, hints):
        return "category", None
    if _is_phone(cells, hints):
        return "phone", None
    if _is_identifier(cells):
        return "identifier", None
    return _text(cells, hints), None


def _text(cells: _Cells, hints: frozenset[str]) -> str:
    """The look of cells that are texts."""
    streets = cells.share(has_street_word)
    if streets > (FEW if "address" in hints else 0.4) and not {"title", "full name", "company"} & hints:
        return "address"
    if (
        "address" in hints
        and cells.share(lambda text: re.search(r"\d", text) and re.search(r"[^\W\d_]{3}", text)) > SOME
    ):
        return "address"
    if cells.share(_CODE.fullmatch) > MANY and cells.mean_words < 3:
        return "code"
    if "proper noun" in hints and cells.mean_words <= LONG_WORDS:
        return "proper noun"
    if cells.share(has_legal_form) > 0.15 or ("company" in hints and cells.mean_length <= LONG_TEXT):
        return "company"
    names = cells.share(_NAME.fullmatch) > MANY and "title" not in hints
    if names and cells.mean_words <= LONG_WORDS:
        if "full name" in hints or {"first name", "last name"} <= hints:
            return "full name"
        for look in ("first name", "last name"):
            if look in hints:
                return look
        if "place" in hints:
            return "place"
        if cells.share(_has_given_name) > 0.15:
            return "first name" if cells.mean_words < 1.3 else "full name"
        if "name" in hints:
            return "name"
    if cells.mean_length > VERY_LONG_TEXT:
        return "very long text"
    if cells.mean_length > LONG_TEXT or cells.mean_words > LONG_WORDS:
        return "text with codes" if cells.share(_has_code) > SOME else "long text"
    if cells.share(_has_code) > 0.5:
        return "text with codes"
    if "title" in hints and "venue" not in hints:
        return "title"
    return "word" if cells.mean_words < 1.3 else "short text"


def _number(cells: _Cells, hints: frozenset[str]) -> str:
    """The look of cells that are numbers: years, codes, amounts, parts of dates."""
    values = [float(text.replace(",", "")) for text in cells.distinct if _NUMBER.fullmatch(text)]
    whole = all(value.is_integer() for value in values)
    texts = [text for text in cells.distinct if _NUMBER.fullmatch(text)]
    for look, largest in (("latitude", 90), ("longitude", 360)):
        if look in hints and not whole and max(map(abs, values)) <= largest:
            return look
    if "amount" in hints:
        return "amount"
    if whole and sum(int(value) in YEARS for value in values) > MOST * len(values) and "code" not in hints:
        return "year"
    for look, largest in (("month", 12), ("day", 31)):
        if look in hints and whole and min(values) >= 1 and max(values) <= largest:
            return look
    if whole and min(values) >= 0 and "phone" in hints:
        return "phone"
    lengths = Counter(map(len, texts))
    fixed = lengths.most_common(1)[0][1] > MANY * len(texts) and min(map(len, texts)) > 3
    padded = any(text.startswith("0") and len(text) > 1 for text in texts)
    if whole and min(values) >= 0 and (fixed or padded or "code" in hints or "address" in hints):
        return "identifier" if _is_identifier(cells) else "code"
    if whole and _is_identifier(cells) and max(values) - min(values) < 2 * len(values):
        return "identifier"
    if _is_category(cells) and whole and cells.n_distinct <= 5:
        return "category"
    spread = sorted(map(abs, values))
    low, high = spread[len(spread) // 20], spread[-1 - len(spread) // 20]
    return "amount" if high > 20 * max(low, 1e-9) and high > 100 else "number"


def _is_date(cells: _Cells, hints: frozenset[str]) -> bool:
    """Texts with year and month in most, or with a year in nearly all and a hint."""

    def parsed(text: str) -> bool:
        found = parse_date(text) if len(text) <= LONG_DATE and len(_WORD.findall(text)) <= 2 else None
        return found is not None and found[1] > 0

    if cells.share(_DECIMAL.fullmatch) > FEW:
        return False
    dated = cells.share(parsed)
    if dated > MANY:
        return True
    short = cells.share(lambda text: len(text) <= LONG_DATE and year(text) and len(_WORD.findall(text)) <= 1)
    return short > MANY and "date" in hints and cells.share(_NUMBER.fullmatch) < MOST


def _separator(cells: _Cells, hints: frozenset[str]) -> str | None:
    """What parts the members of lists; "" if they are written as in a bibliography, None if these are no lists."""
    for mark in (";", "|"):
        if cells.share(partial(_holds, mark)) > SOME:
            return mark
    if "list" in hints and "people" not in hints and _repeats_members(cells):
        return ","
    if cells.share(lambda text: "," in text or _BIBLIOGRAPHY.search(text)) < SOME:
        return None
    if cells.share(lambda text: _lists_people(text, ",")) > (MANY if "people" in hints else MOST):
        commas = cells.share(lambda text: text.count(",") > 1) > FEW or "people" in hints
        return "," if commas and cells.share(_BIBLIOGRAPHY.search) < SOME else "" if "people" in hints else None
    if "people" in hints and cells.share(_BIBLIOGRAPHY.search) > SOME:
        return ""
    return None


def _repeats_members(cells: _Cells) -> bool:
    """Whether cells are lists with commas of members that other lists have too."""
    members = [part.strip().lower() for text in cells.distinct for part in text.split(",")]
    return cells.share(partial(_holds, ",")) > FEW and len(set(members)) < SOME * len(members)


def _holds(mark: str, text: str) -> bool:
    return mark in text


def _lists_people(text: str, separator: str) -> bool:
    """Whether every member is a name of one to five words without digits, and some member has two."""
    members = [part.strip() for part in (text.split(separator) if separator else re.split(r",|\band\b|&|;", text))]
    members = [member for member in members if member]
    return (
        bool(members)
        and all(len(member) <= 40 and len(member.split()) <= 5 and not re.search(r"\d", member) for member in members)
        and any(len(member.split()) > 1 for member in members)
    )


def _is_of_names(cells: _Cells, hints: frozenset[str]) -> bool:
    """Whether few values that are often there are names of people all the same."""
    if cells.share(_NAME.fullmatch) <= MANY or cells.n_distinct < FEWEST_NAMES:
        return False
    return bool({"first name", "last name", "full name"} & hints) or cells.share(_has_given_name) > 0.5


def _is_category(cells: _Cells) -> bool:
    often = cells.n_texts >= TIMES * cells.n_distinct and cells.n_texts >= FEW_RECORDS
    return often and cells.n_distinct <= CATEGORIES and cells.mean_words < LONG_CATEGORY


def _is_phone(cells: _Cells, hints: frozenset[str]) -> bool:
    def shaped(text: str) -> bool:
        return bool(_PHONE.fullmatch(text)) and 7 <= sum(map(str.isdigit, text)) <= 15

    marked = cells.share(lambda text: shaped(text) and _PHONE_MARKS.search(text))
    return marked > (MANY if "phone" not in hints else 0.1) and cells.share(shaped) > MANY


def _is_identifier(cells: _Cells) -> bool:
    # All different, one word, with a digit: a key. Names and titles are all different too, but are many words
    # or have no digits; a measurement has a decimal point.
    all_different = cells.n_distinct == cells.n_texts >= FEW_RECORDS
    return all_different and cells.share(_is_key) > MOST


def _is_key(text: str) -> bool:
    one_word = not any(map(str.isspace, text)) and any(map(str.isdigit, text))
    return one_word and not _DECIMAL.fullmatch(text)


def _has_code(text: str) -> bool:
    return any(
        not code.startswith(WEAK) and len(code) > 3 and not code.isdigit() for code in parse_codes_in_text(text) or ()
    )


def _is_year(text: str) -> bool:
    found = parse_year(text)
    return found is not None and (found < 100 or found in YEARS)


def _is_duration(cells: _Cells, hints: frozenset[str]) -> bool:
    """Numbers or times, some of which say their unit; with a hint none need say it."""

    def told(text: str) -> bool:
        found = parse_duration(text) if len(text) <= LONG_DATE else None
        return found is not None and found.known

    if cells.share(lambda text: told(text) or _NUMBER.fullmatch(text)) <= MOST:
        return False
    return "duration" in hints or cells.share(told) > SOME


def _has_given_name(text: str) -> bool:
    return any(map(nickname_groups, words_of(text)))


def _is_place(text: str) -> bool:
    return parse_place(text) is not None and len(_DECIMAL.findall(text)) == 2


# Looks that the form of a cell tells by itself.
_FORMATS: tuple[tuple[str, Callable[[str], object]], ...] = (
    ("email", _EMAIL.fullmatch),
    ("url", _URL.fullmatch),
    ("coordinates", _is_place),
    ("amount", _MONEY.fullmatch),
)
