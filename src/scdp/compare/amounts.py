"""Dates, amounts, durations, years, pages, places, phones and categories: texts go in, numbers or words come out."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from scdp._typing import Features, Integers
from scdp.compare.cells import Codes, require_people, year
from scdp.compare.languages import MONTHS, parse_amount, to_latin, words_of
from scdp.compare.scorers import PairScorer

# Year, month and day; 0 where the text does not tell.
Date = tuple[int, int, int]
ORDERS = ("dmy", "mdy")
# A year of two digits above this belongs to the 20th century.
LATEST_SHORT_YEAR = 30
EARLIEST, LATEST = 1000, 2199

SAME, SWAPPED, PARTLY_KNOWN, ONE_DIGIT, NEAR, TWO_PARTS, SAME_YEAR, NEXT_YEAR, APART = (
    0.0, 0.1, 0.15, 0.2, 0.3, 0.45, 0.6, 0.8, 1.0,
)  # fmt: skip
NEAR_DAYS = 31
# Whole dates are not farther apart than by the digits in which they differ.
NO_DIGIT, EACH_DIGIT = 0.4, 0.075
N_DIGITS = 8

_PARTS = re.compile(r"\d+|[^\W\d_]+")
_TIME = re.compile(r"[ t]\d{1,2}:\d{2}.*$")
_TWO_NUMBERS = re.compile(r"\s*(\d{1,2})([/.-])(\d{1,2})\2(\d{4}|\d{2})(?:\D.*)?")


def learn_order(texts: Sequence[str]) -> str:
    """Whether the day or the month is first where numbers leave it open, by those that leave it not open."""
    votes = 0
    for text in texts:
        found = _TWO_NUMBERS.fullmatch(text)
        if found:
            first, second = int(found.group(1)), int(found.group(3))
            votes += (first > 12 >= second) - (second > 12 >= first)
    return ORDERS[votes < 0]


def parse_date(text: str, order: str = "dmy") -> Date | None:
    """Year, month and day of a text; None where no year is found or the numbers are no date.

    Example
    -------
    >>> parse_date("May 16, 1946"), parse_date("16.05.46"), parse_date("19460516"), parse_date("(1995).")
    ((1946, 5, 16), (1946, 5, 16), (1946, 5, 16), (1995, 0, 0))
    """
    if len(text) == 10 and text[4] == text[7] == "-" and text.isascii():
        numbers = text.split("-")
        if len(numbers) == 3 and "".join(numbers).isdigit():
            return _from_numbers(numbers, order)
    found = _PARTS.findall(_TIME.sub("", to_latin(text)))
    months = [MONTHS[part] for part in found if part in MONTHS]
    numbers = [part for part in found if part.isdecimal() and part.isascii()]
    if len(numbers) == 1 and not months:
        return _from_one(numbers[0], order)
    if months:
        return _from_named_month(months[0], numbers)
    return _from_numbers(numbers, order) if len(numbers) >= 2 else None


def _from_one(number: str, order: str) -> Date | None:
    if len(number) == 4:
        return _checked(int(number), 0, 0)
    if len(number) == 6:
        return _checked(int(number[:4]), int(number[4:]), 0)
    if len(number) == 8:
        ahead = _checked(int(number[:4]), int(number[4:6]), int(number[6:]))
        return ahead or _ordered(int(number[:2]), int(number[2:4]), int(number[4:]), order)
    return None


def _from_named_month(month: int, numbers: Sequence[str]) -> Date | None:
    if not numbers or len(numbers) > 2:
        return None
    year = next((number for number in numbers if len(number) == 4), numbers[-1])
    days = [number for number in numbers if number is not year]
    return _checked(_full_year(year), month, int(days[0]) if days else 0)


def _from_numbers(numbers: Sequence[str], order: str) -> Date | None:
    if len(numbers[0]) == 4:
        month, day = int(numbers[1]), int(numbers[2]) if len(numbers) > 2 else 0
        return _checked(int(numbers[0]), month, day) or _checked(int(numbers[0]), day, month)
    if len(numbers) == 2:
        return _checked(_full_year(numbers[1]), int(numbers[0]), 0) if len(numbers[1]) == 4 else None
    return _ordered(int(numbers[0]), int(numbers[1]), _full_year(numbers[2]), order)


def _ordered(first: int, second: int, year: int, order: str) -> Date | None:
    dates = _checked(year, second, first), _checked(year, first, second)
    if not first or not second:
        return None
    return (dates[0] or dates[1]) if order == "dmy" else (dates[1] or dates[0])


def _full_year(text: str) -> int:
    year = int(text) if len(text) <= 4 else 0
    return year if len(text) != 2 else year + (1900 if year > LATEST_SHORT_YEAR else 2000)


def _checked(year: int, month: int, day: int) -> Date | None:
    if not (EARLIEST <= year <= LATEST and 0 <= month <= 12 and 0 <= day <= 31):
        return None
    return (year, month, day) if month or not day else None


class DateScorer(PairScorer):
    """Levels: the same, day and month swapped, agreeing as far as known, one digit off, near, same year, else 1.

    Whole dates of the last levels are at most 0.4 + 0.075 a digit in which they differ apart.
    """

    def __init__(self, vocabulary: Sequence[Date]) -> None:
        self._dates = np.array(vocabulary, dtype=np.int64).reshape(-1, 3)

    def pairs(self, left: Integers, right: Integers, workers: int) -> Features:
        from scdp.compare.kernels import fill_dates

        out = np.empty(len(left), dtype=np.float32)
        fill_dates(self._dates, left, right, out)
        return out


EARTH_RADIUS = 6371.0
# Years apart at which the distance is 0.5.
HALF_WAY = 5.0
# What one number without a unit may have to be multiplied by to be in the unit of the other.
UNITS_OF_TIME = (60.0, 1000.0, 60000.0)
OTHER_UNIT = 0.02

# Hours, minutes and seconds.
_CLOCK = re.compile(r"(?:(\d+):)??(\d+):([0-5]\d)(?:\.\d+)?")
_TIMED = re.compile(r"(\d+(?:\.\d+)?)\s*(h(?:ours?|rs?)?|m(?:in(?:ute)?s?)?|s(?:ec(?:ond)?s?)?)(?![a-z])")
_SECONDS = {"h": 3600.0, "m": 60.0, "s": 1.0}
_SHORT_YEAR = re.compile(r"\(?['’]?(\d\d)\)?\.?")
_COORDINATE = re.compile(r"[-+]?\d+(?:\.\d+)?")
_SAME_WORDS = {word: words[0] for words in (("yes", "y", "true", "1"), ("no", "n", "false", "0")) for word in words}
_SEXES = {"m": "male", "man": "male", "f": "female", "w": "female", "woman": "female"}


class RelativeScorer(PairScorer):
    """|difference| / the larger of the two, capped at 1 where signs differ."""

    def __init__(self, vocabulary: Sequence[float]) -> None:
        self._numbers = np.asarray(vocabulary, dtype=np.float64)

    def pairs(self, left: Integers, right: Integers, workers: int) -> Features:
        return _relative(self._numbers[left], self._numbers[right]).astype(np.float32)


class Duration(NamedTuple):
    """Seconds where the unit is known; else a number of seconds, minutes or milliseconds."""

    value: float
    known: bool


def parse_duration(text: str) -> Duration | None:
    """How long something lasts; a number alone may be of any unit.

    Example
    -------
    >>> parse_duration("3:45"), parse_duration("1 hr. 54 min."), parse_duration("225000")
    (Duration(value=225.0, known=True), Duration(value=6840.0, known=True), Duration(value=225000.0, known=False))
    """
    text = text.strip().lower()
    clock = _CLOCK.fullmatch(text)
    if clock is not None:
        hours, minutes, seconds = (float(part or 0) for part in clock.groups())
        return Duration(3600 * hours + 60 * minutes + seconds, True)
    parts = _TIMED.findall(text)
    if parts:
        return Duration(sum(float(number) * _SECONDS[unit[0]] for number, unit in parts), True)
    value = parse_amount(text)
    return None if value is None else Duration(value, False)


class DurationScorer(PairScorer):
    """|difference| / the longer; numbers without a unit may be of others, which adds a little."""

    def __init__(self, vocabulary: Sequence[Duration]) -> None:
        self._values = np.array([each.value for each in vocabulary], dtype=np.float64)
        self._known = np.array([each.known for each in vocabulary], dtype=bool)

    def pairs(self, left: Integers, right: Integers, workers: int) -> Features:
        a, b = self._values[left], self._values[right]
        known, other = self._known[left], self._known[right]
        # Where one is known it comes first, else the smaller one: the result does not depend on the order.
        swap = np.where(known == other, a > b, other)
        a, b = np.where(swap, b, a), np.where(swap, a, b)
        out = _relative(a, b)
        for may, factors in ((~(known | other), UNITS_OF_TIME), (known ^ other, (1 / 60, 1000.0))):
            for times in factors:
                out[may] = np.minimum(out[may], OTHER_UNIT + _relative(a[may] * times, b[may]))
        return np.minimum(out, 1.0).astype(np.float32)


def _relative(a: NDArray[np.float64], b: NDArray[np.float64]) -> NDArray[np.float64]:
    """|difference| / the larger amount, at most 1."""
    larger = np.maximum(np.abs(a), np.abs(b))
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        # Halves, so that no difference of finite numbers is infinite.
        share = np.abs(a / 2 - b / 2) / (larger / 2)
    return np.where(a == b, 0.0, np.minimum(share, 1.0))


def parse_year(text: str) -> int | None:
    """The year in a text; one of two digits stays below 100.

    Example
    -------
    >>> parse_year("(1995)."), parse_year("'97"), parse_year("n.d.")
    (1995, 97, None)
    """
    found = year(text)
    if found:
        return int(found)
    short = _SHORT_YEAR.fullmatch(text.strip())
    return int(short.group(1)) if short else None


class YearScorer(PairScorer):
    """Years apart / (years apart + 5), within the century where one has two digits."""

    def __init__(self, vocabulary: Sequence[int]) -> None:
        self._years = np.array(vocabulary, dtype=np.int64)

    def pairs(self, left: Integers, right: Integers, workers: int) -> Features:
        a, b = self._years[left], self._years[right]
        gap = np.abs(a - b)
        within = np.abs(a % 100 - b % 100)
        gap = np.where((a < 100) | (b < 100), np.minimum(within, 100 - within), gap)
        return (gap / (gap + HALF_WAY)).astype(np.float32)


# Pages that begin alike: the end of one is not known, or is another; and pages that only end alike.
ONE_PAGE, OTHER_END, SAME_END_PAGE = 0.1, 0.3, 0.5
_PAGES = re.compile(
    r"\D{0,6}(?:\d+:)?(\d{1,7})(?:\s*(?:[-–—]+|to|bis)\s*[a-z]?(?:\d+:)?(\d{1,7}))?\D{0,8}", re.IGNORECASE
)


class Pages(NamedTuple):
    """The first and the last page, 0 where it is not told."""

    first: int
    last: int


def parse_pages(text: str) -> Pages | None:
    """Pages of a text; a last page may be cut short.

    Example
    -------
    >>> parse_pages("pp. 350-8"), parse_pages("350--358"), parse_pages("350")
    (Pages(first=350, last=358), Pages(first=350, last=358), Pages(first=350, last=0))
    """
    found = _PAGES.fullmatch(text.strip())
    if found is None:
        return None
    first, last = found.group(1), found.group(2) or ""
    if last and len(last) < len(first):
        last = first[: -len(last)] + last
    return Pages(int(first), int(last) if last and int(last) >= int(first) else 0)


class PagesScorer(PairScorer):
    """0 the same; then the same first page and one without an end, with another end, the same end; else 1."""

    def __init__(self, vocabulary: Sequence[Pages]) -> None:
        self._pages = np.array(vocabulary, dtype=np.int64).reshape(-1, 2)

    def pairs(self, left: Integers, right: Integers, workers: int) -> Features:
        (first, last), (other_first, other_last) = self._pages[left].T, self._pages[right].T
        begins, ends, told = first == other_first, last == other_last, (last > 0) & (other_last > 0)
        levels = [(begins & ends, 0.0), (begins & ~told, ONE_PAGE), (begins, OTHER_END), (ends & told, SAME_END_PAGE)]
        return np.select([holds for holds, _ in levels], [value for _, value in levels], 1.0).astype(np.float32)


def parse_place(text: str) -> tuple[float, float] | None:
    """Latitude and longitude in degrees; None where there are not two numbers that can be these.

    Example
    -------
    >>> parse_place("48.137 11.575"), parse_place("48.137, 11.575"), parse_place("99 0")
    ((48.137, 11.575), (48.137, 11.575), None)
    """
    found = _COORDINATE.findall(text)
    if len(found) != 2:
        return None
    latitude, longitude = map(float, found)
    return (latitude, longitude) if abs(latitude) <= 90 and abs(longitude) <= 360 else None


class PlaceScorer(PairScorer):
    """Kilometres over the great circle, km / (km + scale): 0.5 at the scale."""

    def __init__(self, vocabulary: Sequence[tuple[float, float]], scale: float) -> None:
        latitude, longitude = np.radians(np.array(vocabulary, dtype=np.float64).reshape(-1, 2)).T
        around = np.cos(latitude)
        self._points = np.stack([around * np.cos(longitude), around * np.sin(longitude), np.sin(latitude)], axis=1)
        self._scale = scale

    def pairs(self, left: Integers, right: Integers, workers: int) -> Features:
        chord = np.linalg.norm(self._points[left] - self._points[right], axis=1)
        km = 2 * EARTH_RADIUS * np.arcsin(np.minimum(chord / 2, 1.0))
        return (km / (km + self._scale)).astype(np.float32)


def parse_category(text: str) -> str | None:
    """The words of a category; yes and true, no and false, m and male are the same.

    Example
    -------
    >>> parse_category(" TRUE"), parse_category("Y"), parse_category("M"), parse_category("New York")
    ('yes', 'yes', 'male', 'new york')
    """
    word = " ".join(words_of(text))
    return _SEXES.get(word) or _SAME_WORDS.get(word, word) or None


# A phone number has so many digits at least; a shorter one says nothing about country and area.
FEWEST_DIGITS, MOST_DIGITS = 5, 18
# Numbers that end with all digits of the other agree if those are as many as this.
LOCAL_DIGITS = 7
# The digits at the end by which two numbers are said to be shared.
LAST_DIGITS = 9
SAME_END, SAME_AREA = 0.1, 0.8
AREA_DIGITS = 4

_EXTENSION = re.compile(r"(?:ext\.?|extension|x|#|durchwahl)\s*\d{1,6}\s*$", re.IGNORECASE)
_TRUNK = re.compile(r"\(0\)")
_NO_DIGIT = re.compile(r"[^0-9]")
_MARKS = dict.fromkeys(map(ord, " +-./()"))


def parse_phone(text: str) -> str | None:
    """The digits of a phone number without extension, leading zeros and "(0)"; None where there are too few.

    Example
    -------
    >>> parse_phone("+44 (0)3501-146662"), parse_phone("03501 146662")
    ('443501146662', '3501146662')
    """
    plain = text.translate(_MARKS)
    if not (plain.isascii() and plain.isdigit() and "(0)" not in text):
        plain = _NO_DIGIT.sub("", _TRUNK.sub("", _EXTENSION.sub("", text)))
    digits = plain.lstrip("0")
    return digits[-MOST_DIGITS:] if len(digits) >= FEWEST_DIGITS else None


def parse_phone_of(text: str, region: str) -> str | None:
    """The digits of a number of a country, with its code; those of `parse_phone` where it can be no whole number.

    Example
    -------
    >>> parse_phone_of("8 (495) 123-45-67 ext. 5", "RU"), parse_phone_of("+7 495 1234567", "RU")
    ('74951234567', '74951234567')
    """
    phonenumbers = require_people("phonenumbers", "a region of phones")
    try:
        found = phonenumbers.parse(text, region)
    except phonenumbers.NumberParseException:
        return parse_phone(text)
    # A local number, without its area, says as much of others as its digits do.
    if phonenumbers.is_possible_number_with_reason(found) != phonenumbers.ValidationResult.IS_POSSIBLE:
        return parse_phone(text)
    return phonenumbers.format_number(found, phonenumbers.PhoneNumberFormat.E164)[1:][-MOST_DIGITS:]


def known_regions() -> frozenset[str]:
    """Countries by their two letters, as phones know them."""
    return frozenset(require_people("phonenumbers", "a region of phones").SUPPORTED_REGIONS)


@dataclass(frozen=True, eq=False)
class PhoneList(Sequence[str]):
    """Phone numbers as whole numbers; none begins with a zero. Digits beyond `width`, if there is one, are left out."""

    numbers: Integers
    width: int = 0

    def __len__(self) -> int:
        return len(self.numbers)

    def __getitem__(self, place: Any) -> Any:
        if isinstance(place, slice):
            return [self[k] for k in range(*place.indices(len(self)))]
        return str(self.numbers[place])[-self.width :]

    def list_tokens(self) -> tuple[Sequence[Any], Codes, Integers]:
        """The distinct last digits, by which numbers are shared, and by number the place of its own."""
        from scdp.texts import number_values

        # A digit in front tells the end of a longer number, which may begin with zeros, from a shorter one.
        longer = self.numbers >= 10 ** (LAST_DIGITS - 1)
        codes, rows = number_values(self.numbers % 10**LAST_DIGITS + 10**LAST_DIGITS * longer)
        return PhoneList(self.numbers[rows], LAST_DIGITS), codes, np.arange(len(self) + 1, dtype=np.int64)


def parse_phones(texts: Sequence[str]) -> tuple[Codes, PhoneList] | None:
    """Distinct phones in the order of appearance, and the place of each text among them, -1 where there is none.

    What `parse_phone` gives for each text; digits and the usual marks are read in a kernel. None if one begins with a
    zero, as the end of a number that is too long may.
    """
    from scdp.compare.kernels import NOT_PLAIN, read_phones
    from scdp.texts import TextBytes, number_values

    marks = np.zeros(256, dtype=bool)
    marks[list(_MARKS)] = True
    numbers = read_phones(*TextBytes.of(texts), marks)
    for place in np.flatnonzero(numbers == NOT_PLAIN).tolist():
        digits = parse_phone(texts[place])
        if digits is not None and digits[0] == "0":
            return None
        numbers[place] = int(digits or 0)
    codes, rows = number_values(numbers)
    found = numbers[rows]
    present = found > 0
    place_of = np.where(present, np.cumsum(present) - 1, -1).astype(np.int32)
    return place_of[codes], PhoneList(found[present])


def phone_tokens(digits: str) -> tuple[str, ...]:
    return (digits[-LAST_DIGITS:],)


class PhoneScorer(PairScorer):
    """0 where the shorter number ends the longer; then the same end, one digit, the same area; else 1."""

    def __init__(self, vocabulary: Sequence[str]) -> None:
        if isinstance(vocabulary, PhoneList):
            self._numbers = vocabulary.numbers
            self._lengths = np.searchsorted(10 ** np.arange(MOST_DIGITS + 1), vocabulary.numbers, side="right")
        else:
            self._numbers = np.fromiter(map(int, vocabulary), np.int64, len(vocabulary))
            self._lengths = np.fromiter(map(len, vocabulary), np.int64, len(vocabulary))
        width = LAST_DIGITS + 1
        first = np.maximum(np.minimum(self._lengths, width) - AREA_DIGITS, 0)
        self._areas = self._numbers % 10**width // 10**first

    def pairs(self, left: Integers, right: Integers, workers: int) -> Features:
        from scdp.compare.kernels import fill_phones

        out = np.empty(len(left), dtype=np.float32)
        fill_phones(self._numbers, self._lengths, self._areas, left, right, out)
        return out
