"""Kinds that read what columns hold: each equals its slow twin, keeps to its range, and says so in words."""

from __future__ import annotations

import doctest
import importlib
import random
from collections.abc import Callable
from itertools import combinations
from typing import Any

import numpy as np
import pytest

from scdp import compare
from scdp.compare import kinds
from scdp.compare.alignment import ADDRESS, KEPT_FOR_A_TEXT, PERSON, is_far, word_cost
from scdp.compare.amounts import learn_order, parse_date, parse_phone
from scdp.compare.content import parse_address
from scdp.compare.features import Comparer
from scdp.compare.languages import Lexicon, sound_keys
from scdp.compare.names import parse_full_name, parse_person_name
from scdp.compare.prepared import Frequencies, Prepared
from scdp.compare.words import WordTable, parse_code
from scdp.datasets import make_records
from scdp.errors import InputError
from scdp.table import Records
from twins import kinds as twins

N_PAIRS = 10_000
FIRST = ["John", "Ben", "King", "Jon", "Johnny", "Robert", "Bob", "Bobby", "Mary", "Maria", "Łukasz", "Zoë", "Иван",
         "J.", "R", "JR", "A. B.", "JA"]  # fmt: skip
LAST = ["Smith", "Smyth", "Meyer", "Maier", "O'Brien", "OBrien", "van der Berg", "Berg", "Müller", "Mueller",
        "Garcia-Lopez", "Lee", "Le", "King", "李"]  # fmt: skip
TITLES = ["", "", "", "Mr. ", "Mrs ", "Dr. ", "Sir "]
SUFFIXES = ["", "", "", " Jr.", " Sr", " III", ", Jr."]
WORDS = ["acme", "acmee", "wonka", "foods", "food", "systems", "sistems", "3m", "7", "a", "global", "globl", "trading"]
LEGAL = ["", " Inc.", " S.A.", " GmbH", ", Ltd", " & Co. KG"]
STREETS = ["Station Street", "Station St.", "Staton St", "Hauptstraße", "Haupt str.",
           "la cienega blvd", "5th Ave", "Fifth Avenue"]  # fmt: skip


def _person(chance: random.Random) -> str:
    first = " ".join(chance.choices(FIRST, k=chance.randrange(4)))
    name = f"{first} {chance.choice(LAST)}" if chance.random() < 0.7 else f"{chance.choice(LAST)}, {first}"
    return chance.choice(TITLES) + name + chance.choice(SUFFIXES)


def _company(chance: random.Random) -> str:
    if chance.random() < 0.1:
        return "".join(chance.choices("AWFSTG", k=chance.randrange(1, 4)))
    return (
        chance.choice(["", "The "]) + " ".join(chance.choices(WORDS, k=chance.randrange(1, 6))) + chance.choice(LEGAL)
    )


def _address(chance: random.Random) -> str:
    number = chance.choice(["", "1", "12", "12a", "21", "102", "112"])
    unit = chance.choice(["", "", ", Flat 2", " Apt 3b", " #2"])
    town = chance.choice(["", ", Leeds", ", Leeds LS1 4AB", ", York YO1 4AB", " New York 10011", " NY 10012-1234"])
    return f"{number} {chance.choice([*STREETS, ''])}{unit}{town}"


def _date(chance: random.Random) -> str:
    year, month, day = (chance.choice([1946, 1947, 1964, 1996, 2001]), chance.randint(1, 12), chance.randint(1, 28))
    style = chance.randrange(8)
    names = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"]
    return [
        f"{year}-{month:02d}-{day:02d}", f"{year}{month:02d}{day:02d}", f"{day:02d}/{month:02d}/{year}",
        f"{day}.{month}.{year % 100:02d}", f"{names[month - 1]} {day}, {year}", f"({year}).", f"{year}-{month:02d}",
        chance.choice(["9999-99-99", "n/a", "00000000", "32/13/1999"]),
    ][style]  # fmt: skip


def _phone(chance: random.Random) -> str:
    digits = "".join(chance.choices("01", k=chance.choice([3, 6, 7, 9, 10])))
    lead = chance.choice(["", "+44 ", "0044", "0", "+44 (0)", "1-"])
    return f"{lead}{digits[:3]} {digits[3:]}{chance.choice(['', '', ' ext 12'])}"


def _email(chance: random.Random) -> str:
    local = "".join(chance.choices("ab.-", k=chance.randrange(6)))
    domain = chance.choice(["x.com", "y.com", "GMAIL.com", "googlemail.com", ""])
    return f"{local}{chance.choice(['', '+tag'])}@{domain}"


def _url(chance: random.Random) -> str:
    host = chance.choice(["x.org", "www.x.org", "https://y.org", "HTTP://X.org", "[::1", "x.y.org"])
    return host + chance.choice(["", "/", "/a", "/a/b/", "/A?utm_source=q", "/a?b=1&a=2", "/a?a=2&b=1"])


def _code(chance: random.Random) -> str:
    return "".join(chance.choices("A12 -0", k=chance.randrange(8)))


def _product(chance: random.Random) -> str:
    codes = [
        "DSC-T700/B",
        "DSCT700",
        "DSC T700",
        "T700B",
        "1080p",
        "EZXS88W",
        "963293-0403",
        "40in",
        "MX 5000",
        "7",
        "x2",
    ]
    return " ".join(chance.choices(codes + WORDS, k=chance.randrange(6)))


def _amount(chance: random.Random) -> str:
    cells = ["$1,234.50", "1.234,50 EUR", "10", "-10", "0", "2.5k", "1e999", "free", "1'000", "3,5", "12.000"]
    return chance.choice([*cells, "3 lbs", "1 kg", "5 m"])


def _place(chance: random.Random) -> str:
    latitude, longitude = (chance.choice([48.1, 48.2, -48.1, 90, 91]), chance.choice([11.5, -11.5, 180, -180, 359.9]))
    return chance.choice([f"{latitude} {longitude}", f"{latitude}, {longitude}", "48"])


def _vector(chance: random.Random) -> str:
    numbers = [str(chance.choice([0, 1, -1, 0.5, 1e-3, 7.25, -1e30])) for _ in range(chance.choice([2, 3, 3, 3]))]
    return chance.choice(["[{}]", "{}", "({})"]).format(chance.choice([", ", " ", ";"]).join(numbers))


def _category(chance: random.Random) -> str:
    return chance.choice(["m", "Male", "F", "female", "yes", "TRUE", "1", "no", "0", "New  York", "new-york", "--"])


def _title(chance: random.Random) -> str:
    words = [*WORDS, "gambling", "gambing", "gamblings", "casino", "casinos", "casinó"]
    return " ".join(chance.choices(words, k=chance.randrange(9)))


def _list(chance: random.Random) -> str:
    return "; ".join(chance.choices(["Rock", "rock ", "jazz", "J. Lee", "Lee, J.", "", "李"], k=chance.randrange(6)))


def _work(chance: random.Random) -> str:
    words = " ".join(
        chance.choices(["The", "Wild", "River", "rivers", "2", "II", "Moon", "and"], k=chance.randrange(5))
    )
    before = chance.choice(["", "", "03 - ", "001-", "(I Can't) "])
    after = chance.choice(
        ["", "", " (live)", " [Remix]", " (feat. Ann Lee)", " - Single", " - Live at X", " (1997)", " ft. Bo"]
    )
    return before + words + after


def _noun(chance: random.Random) -> str:
    return chance.choice(["", "", "the ", "Mr. ", "Mrs. "]) + chance.choice(
        [
            _person(chance),
            *("Ann Lee", "Ann", "Lee", "Ann Mary Lee", "Lees", "Lee's", "Lee University", "New Lee", "Lee Lee Ann"),
            *("United Nations", "UN", "Nations", "Nations Nations", "Durham University", "Durham", "Bo Durham Lee"),
        ]
    )


def _duration(chance: random.Random) -> str:
    cells = [
        "3:45",
        "225",
        "3.75",
        "225000",
        "3m 45sec",
        "1h 54min",
        "114 min",
        "114",
        "1:54:00",
        "0",
        "-3",
        "?",
        "4:59",
    ]
    return chance.choice(cells)


def _year(chance: random.Random) -> str:
    return chance.choice(["1997", "(1995).", "'97", "05", "2005", "n.d.", "1905", "in 1998, May", "99"])


def _pages(chance: random.Random) -> str:
    return chance.choice(
        ["350-8", "350-358", "pp. 350--359", "350", "12-358", "p. 12", "S12-S20", "n.a.", "9-3", "1:1-1:9"]
    )


def _venue(chance: random.Random) -> str:
    words = ["Proc.", "J.", "Journal", "of", "Mach.", "Machine", "Learn.", "Learning", "Res.", "VLDB", "JMLR", "Intl",
             "International", "Data", "Databases", "on", "1993", "3rd"]  # fmt: skip
    return " ".join(chance.choices(words, k=chance.randrange(7)))


def _acronym(chance: random.Random) -> str:
    return chance.choice(["USA", "U.S.A.", "United States of America", "Union Sud Amis", "us", "x", "X-ray", "", "?!"])


MAKERS: dict[str, Callable[[random.Random], str]] = {
    "person_name": _person, "company": _company, "address": _address, "date": _date, "phone": _phone,
    "email": _email, "url": _url, "code": _code, "codes_in_text": _product, "relative": _amount, "geo": _place,
    "cosine": _vector,
    "category": _category, "tfidf": _title, "rare_words": _title, "qgram_tfidf": _title, "soft_tokens": _title,
    "title": _work, "proper_noun": _noun, "duration": _duration, "year": _year, "pages": _pages, "venue": _venue,
    "contained_tokens": _title, "set_overlap": _list, "people_overlap": _list, "acronym": _acronym,
}  # fmt: skip
TWINS: dict[str, Callable[[Any, Any], float]] = {
    "person_name": twins.person_name, "company": twins.company, "address": twins.address, "date": twins.date,
    "phone": twins.phone, "email": lambda a, b: twins.two_parts(a, b, (0.8, 0.2)),
    "url": lambda a, b: twins.two_parts(a, b, (0.5, 0.5)), "code": twins.code, "relative": twins.relative,
    "geo": twins.geo, "cosine": twins.cosine, "category": lambda a, b: float(a != b), "set_overlap": twins.overlap,
    "people_overlap": twins.overlap, "acronym": twins.acronym, "title": twins.title,
    "proper_noun": twins.proper_noun, "duration": twins.duration, "year": twins.year,
    "pages": twins.pages, "venue": twins.venue,
}  # fmt: skip
WEIGHED = ("tfidf", "rare_words", "qgram_tfidf", "soft_tokens", "contained_tokens", "codes_in_text")


def prepared_pairs(
    kind: str, seed: int = 0, make: Callable[[random.Random], str] | None = None, **settings: Any
) -> tuple[Prepared, np.ndarray, np.ndarray]:
    """Random cells, and pairs of which some are near: each cell with another, and with one that differs in a letter."""
    chance = random.Random(f"{kind} {seed}")
    make = make or MAKERS[kind]
    cells: list[str | None] = [None, *(make(chance) or None for _ in range(599))]
    spoilt = []
    for cell in cells[:300]:
        place = chance.randrange(len(cell)) if cell else 0
        spoilt.append(
            cell[:place] + chance.choice(["", "x", "1", cell[place] * 2]) + cell[place + 1 :] if cell else None
        )
    cells += [cell or None for cell in spoilt]
    left, right = (np.array([chance.randrange(900) for _ in range(N_PAIRS)]) for _ in range(2))
    left[:300], right[:300] = np.arange(300), np.arange(600, 900)
    separator = ";" if kind.endswith("overlap") else None
    comparison = compare.make_comparison(kind, "x", separator=separator, **settings)
    records = Records({"x": np.array(cells, dtype=object)})
    return comparison.prepare(records), left, right


def expected(prepared: Prepared, left: np.ndarray, right: np.ndarray, score: Callable[[Any, Any], float]):
    known: dict[tuple[int, int], float] = {}
    for a, b in zip(prepared.codes[left].tolist(), prepared.codes[right].tolist(), strict=True):
        if (a, b) not in known:
            missing = min(a, b) < 0
            known[a, b] = np.nan if missing else score(prepared.vocabulary[a], prepared.vocabulary[b])
        yield known[a, b]


def tokens_by_record(prepared: Prepared) -> list[Any]:
    tokens_of = prepared.comparison.kind_details.tokens or (lambda value: (value,))
    values = [None if code < 0 else prepared.vocabulary[code] for code in prepared.codes]
    return [None if value is None else list(tokens_of(value)) for value in values]


def twin_of(kind: str, prepared: Prepared) -> Callable[[Any, Any], float]:
    if kind not in WEIGHED:
        return TWINS[kind]
    counted = twins.Counted(tokens_by_record(prepared))
    name = "tfidf" if kind == "qgram_tfidf" else kind
    tokens_of = prepared.comparison.kind_details.tokens
    return lambda a, b: getattr(counted, name)(tokens_of(a), tokens_of(b))


@pytest.mark.parametrize("kind", sorted(MAKERS))
def test_pairs_equal_the_slow_twin(kind):
    prepared, left, right = prepared_pairs(kind)
    check_twin(prepared, left, right, twin_of(kind, prepared))


def check_twin(prepared: Prepared, left: np.ndarray, right: np.ndarray, twin: Callable[[Any, Any], float]) -> None:
    found = prepared.pairs(left, right, 2)
    wanted = np.array(list(expected(prepared, left, right, twin)))
    assert np.isnan(wanted).any()
    assert len(np.unique(wanted[~np.isnan(wanted)])) > 1
    np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=2e-6)
    np.testing.assert_array_equal(found, prepared.pairs(right, left, 1))
    assert np.nanmin(found) >= 0
    assert np.nanmax(found) <= 1
    if prepared.comparison.kind != "codes_in_text":
        same = prepared.pairs(left, left, 1)
        np.testing.assert_allclose(same[~np.isnan(same)], 0, atol=1e-6)


@pytest.mark.parametrize("kind", sorted(MAKERS))
def test_block_agrees_with_pairs_and_is_symmetric(kind):
    chance = random.Random(kind)
    cells = [*(MAKERS[kind](chance) or None for _ in range(80)), None, "", "...", float("nan")]
    comparison = compare.make_comparison(kind, "x")
    square = comparison.block(cells)
    rows, columns = np.indices(square.shape).reshape(2, -1)
    np.testing.assert_array_equal(square.ravel(), comparison.pairs(cells, rows, columns))
    np.testing.assert_array_equal(square, square.T)
    np.testing.assert_array_equal(comparison.block(cells[:50], cells[50:]), square[:50, 50:])
    assert np.isnan(square[-4:]).all()


@pytest.mark.parametrize("kind", sorted(kinds.BUILT_IN))
def test_shared_nats_equal_the_slow_twin(kind):
    if kind in MAKERS:
        prepared, left, right = prepared_pairs(kind, seed=1)
    else:
        chance = random.Random(kind)
        records = Records({"x": np.array([_list(chance) or None for _ in range(300)], dtype=object)})
        prepared = compare.make_comparison(kind, "x").prepare(records)
        left, right = (np.array([chance.randrange(300) for _ in range(2000)]) for _ in range(2))
    tokens = tokens_by_record(prepared)
    counted = twins.Counted(tokens)
    score = counted.largest_shared_nats if kinds.BUILT_IN[kind].forms else counted.shared_nats
    found = prepared.shared_nats(left, right)
    missing = [tokens[a] is None or tokens[b] is None for a, b in zip(left, right, strict=True)]
    wanted = [np.nan if gone else score(tokens[a], tokens[b]) for a, b, gone in zip(left, right, missing, strict=True)]
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("kind", sorted(kinds.BUILT_IN))
def test_a_part_with_the_counts_of_all_is_compared_as_the_whole(kind):
    """As a worker of Spark does it, which has the cells of some records and how common values are among all."""
    chance = random.Random(kind)
    cells = [MAKERS.get(kind, _list)(chance) or None for _ in range(400)]
    cells[:4] = ["3", "4", "12", "3"] if kinds.BUILT_IN[kind].value == "number" else cells[:4]
    records = Records({"x": np.array(cells, dtype=object)})
    fields = [compare.make_comparison(kind, "x").fit(records)]
    whole = Comparer.of(records, fields)
    rows = np.array(sorted(chance.sample(range(400), 90)))
    part = Comparer.of(records.take(rows), fields, whole.count())
    left, right = np.triu_indices(len(rows), k=1)
    np.testing.assert_array_equal(part.compare(left, right, 1), whole.compare(rows[left], rows[right], 1))


def test_supplied_frequencies_are_used():
    records = Records({"x": np.array(["Ann Lee", "Ann Lee", "Bo Lee"], dtype=object)})
    comparison = compare.person_name("x")
    at_hand = comparison.prepare(records)
    assert at_hand.shared_nats(np.array([0]), np.array([1]))[0] == pytest.approx(np.log(3 / 2))
    supplied = comparison.prepare(records, Frequencies(1000, {"ann": 10, "lee": 100}))
    found = supplied.shared_nats(np.array([0, 0]), np.array([1, 2]))
    np.testing.assert_allclose(found, [np.log(100) + np.log(10), np.log(10)], rtol=1e-6)
    again = comparison.prepare(records, at_hand.tokens.frequencies)
    assert again.shared_nats(np.array([0]), np.array([1]))[0] == pytest.approx(np.log(3 / 2))


def test_a_weighed_distance_uses_supplied_frequencies():
    records = Records({"x": np.array(["the casino", "the opera"], dtype=object)})
    common = Frequencies(1000, {"the": 1000})
    rare = Frequencies(1000, {"the": 1})
    near, far = (
        compare.tfidf("x").prepare(records, each).pairs(np.array([0]), np.array([1]), 1)[0] for each in (rare, common)
    )
    assert near < 0.6 < far


@pytest.mark.parametrize(
    ("kind", "one", "other", "distance"),
    [
        ("person_name", "Dr. Rebecca Taylor", "Taylor, Becky", 0.025),
        ("person_name", "R. Taylor", "Rebecca Taylor", 0.05),
        ("person_name", "Taylor Rebecca", "Rebecca Taylor", 0.0),
        ("person_name", "Peter van-der-Berg", "Peter Berg", 0.0),
        ("person_name", "Mr. Smith", "Mrs. Smith", 0.5),
        ("person_name", "John Smith Jr.", "John Smith Sr.", 0.3),
        ("person_name", "Mary Ann Lee", "Maryann Lee", 0.02),
        ("person_name", "Мария Иванова", "Mariya Ivanova", 0.0),
        ("person_name", "Stephen King", "King, Stephen", 0.0),
        ("person_name", "Le Van Tuan", "Tuan Le", 0.0),
        ("person_name", "van Gogh", "Vincent van Gogh", 0.1),
        ("person_name", "Maria de la Cruz", "Maria Cruz", 0.0),
        ("person_name", "John Smith, MD, PhD", "Smith, John", 0.0),
        ("person_name", "John Smith JR", "Smith Jr., John", 0.0),
        ("person_name", "Mueller", "Müller", 0.05),
        ("person_name", "Jörg Maier", "Joerg Meyer", 0.125),
        ("person_name", "Smith JA", "John A. Smith", 0.1 / 3),
        ("person_name", "Wei XU", "Wei Xu", 0.0),
        ("proper_noun", "Stephen King", "King", 0.12),
        ("proper_noun", "King Arthur", "Arthur", 0.0),
        ("people_overlap", "Stephen King", "Stephen Prince", 1.0),
        ("people_overlap", "Smith JR; Lee KB", "J. Smith; K. Lee", 0.0),
        ("people_overlap", "Ben Lee", "B. Lee", 0.0),
        ("company", "AS Roma", "Roma", 0.25),
        ("company", "Co Op", "Op", 0.25),
        ("company", "PT Astra Tbk", "Astra Tbk", 0.0),
        ("company", "Acme Inc. New York", "Acme New York GmbH", 0.0),
        ("company", "The Wonka Foods S.A.", "Wonka-Foods, Ltd.", 0.0),
        ("company", "IBM", "International Business Machines Corp.", 0.2),
        ("date", "25.07.82", "Jul 25, 1982", 0.0),
        ("date", "1948-03-08", "08.03.48", 0.0),
        ("date", "1948-03-08", "1948-08-03", 0.1),
        ("phone", "+44 (0)3501-146662", "03501 146662 x12", 0.0),
        ("phone", "310/246-1501", "310-246-1502", 0.2),
        ("email", "Rebecca.Taylor48+news@Acme.com", "rebeccataylor48@acme.com", 0.0),
        ("email", "rebecca@gmail.com", "rebecca@googlemail.com", 0.0),
        ("address", "114 Station Street, Köln", "114 Station St., Koln", 0.0),
        ("address", "Hauptstraße 5", "5 Haupt Str.", 0.0),
        ("code", "C74 6AC", "c746ac", 0.0),
        ("code", "CRM-0010303", "10303", 0.1),
        ("relative", "$1,234.50", "1.234,50 EUR", 0.0),
        ("relative", "1 kg", "1000 g", 0.0),
        ("relative", "16 GB", "16384 MB", 0.0),
        ("relative", "5 m", "500 cm", 0.0),
        ("relative", "$7.7 million", "7700000", 0.0),
        ("relative", "5' 10\"", "177.8 cm", 0.0),
        ("url", "https://www.example.org/a/?utm_source=x", "example.org/a", 0.0),
        ("category", "Y", "true", 0.0),
        ("people_overlap", "Auer, P., & Freund, Y.", "Peter Auer and Yoav Freund", 0.0),
        ("title", "03 - The Wild River", "Wild River, The", 0.0),
        ("title", "Wild River (feat. Ann Lee)", "Wild River", 0.0),
        ("title", "Wild River (Live)", "Wild River", 0.15),
        ("title", "Wild River II", "Wild River 3", 0.4),
        ("proper_noun", "Mr. Bennet", "Mrs. Bennet", 0.9),
        ("proper_noun", "the UN", "United Nations", 0.05),
        ("proper_noun", "Bennet's", "Elizabeth Bennet", 0.12),
        ("proper_noun", "Elizabeth", "Elizabeth Bennet", 0.15),
        ("proper_noun", "Durham", "Durham University", 0.7),
        ("duration", "3:45", "3m 45sec", 0.0),
        ("duration", "225000", "3:45", 0.02),
        ("year", "'97", "(1997).", 0.0),
        ("year", "1995", "2000", 0.5),
        ("pages", "pp. 350-8", "350--358", 0.0),
        ("pages", "350", "350-358", 0.1),
        ("venue", "J. Mach. Learn. Res.", "Journal of Machine Learning Research", 0.1),
        ("venue", "Proc. VLDB", "VLDB 1993", 0.0),
        ("venue", "VLDB", "International Conference on Very Large Data Bases", 0.2),
        ("venue", "STOC", "Proc. 20th ACM Symposium on Theory of Computing", 0.2),
        ("date", "4 de mayo de 1965", "May 4, 1965", 0.0),
        ("date", "4 maja 1965", "4 мая 1965", 0.0),
        ("set_overlap", '["Drama", "Comedy"]', "comedy|drama", 0.0),
        ("acronym", "IBM", "International Business Machines", 0.1),
    ],
)
def test_what_people_would_say(kind, one, other, distance):
    separator = "," if kind == "set_overlap" else None
    found = compare.make_comparison(kind, "x", separator=separator).block([one], [other])[0, 0]
    assert found == pytest.approx(distance, abs=1e-6)


@pytest.mark.parametrize(
    ("one", "other"),
    [("Stephen King", "Stephen Prince"), ("Ben Smith", "Al Smith"), ("Tuan Le", "Tuan Do"), ("King", "Prince"),
     ("Van Morrison", "Jim Morrison"), ("Judge Reinhold", "Duke Reinhold"), ("Bin Li", "Do Li")],
)  # fmt: skip
def test_names_that_are_titles_or_particles_elsewhere_stay(one, other):
    assert compare.person_name("x").block([one], [other])[0, 0] > 0.4
    assert compare.people_overlap("x").block([one], [other])[0, 0] == 1.0


def test_days_and_months_are_ordered_by_what_the_column_shows():
    assert learn_order(["01/02/1990", "13/02/1990"]) == "dmy"
    assert learn_order(["01/02/1990", "02/13/1990"]) == "mdy"
    assert parse_date("01/02/1990", "mdy") == (1990, 1, 2)
    # What leaves it not open is read as it must be.
    assert parse_date("13/02/1990", "mdy") == (1990, 2, 13)
    records = Records({"x": np.array(["01/02/1990", "02/13/1990"], dtype=object)})
    comparison = compare.date("x")
    assert comparison.needs_fit
    fitted = comparison.fit(records)
    assert fitted.order == "mdy"
    assert not fitted.needs_fit
    with pytest.raises(InputError, match="there is no order 'ymd'"):
        compare.date("x", order="ymd")


def test_placeholders_are_missing():
    comparison = compare.company("x", missing=("N/A", "-"))
    found = comparison.block(["n/a ", "-", "Acme"], ["Acme"])
    np.testing.assert_array_equal(found.ravel(), [np.nan, np.nan, 0])
    joined = compare.person_name(["a", "b"], missing=("unknown",))
    records = Records({"a": np.array(["Ann", "Unknown"], dtype=object), "b": np.array(["Lee", "Lee"], dtype=object)})
    assert joined.prepare(records).vocabulary[1].words == ("lee",)
    with pytest.raises(InputError, match="missing must be a list of texts"):
        compare.company("x", missing=(" ",))


def test_nicknames_can_be_replaced():
    own = compare.person_name("x", nicknames=[("Peggy", "Zbigniew"), ("zoë", "Z")])
    assert own.block(["Peggy"], ["Zbigniew"])[0, 0] == pytest.approx(0.05)
    assert own.block(["Bob"], ["Robert"])[0, 0] > 0.2
    mapped = compare.person_name("x", nicknames={"Zbigniew": ["Peggy"], "Zoe": ["Z"]})
    cells = ["Peggy", "Zbigniew", "Zoë", "Bob", "Robert"]
    np.testing.assert_array_equal(mapped.block(cells), own.block(cells))
    more = compare.person_name("x", nicknames=(*compare.default_nicknames(), ("peggy", "zbigniew")))
    for comparison in (more, compare.person_name("x", nicknames=compare.default_nicknames())):
        np.testing.assert_array_equal(
            comparison.block(["Bob"], cells[2:]), compare.person_name("x").block(["Bob"], cells[2:])
        )
    assert more.block(["Peggy"], ["Zbigniew"])[0, 0] == pytest.approx(0.05)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ([], "some groups of names"),
        (["bob", "robert"], "must be lists of names, not 'bob'"),
        ([["bob", 3]], "must be lists of names"),
        ([["bob", "mary ann"]], "nicknames have 'mary ann'; each must be one word"),
        ([["bob", ""]], "nicknames have ''"),
    ],
)
def test_nicknames_that_are_none(given, message):
    with pytest.raises(InputError, match=message):
        compare.person_name("x", nicknames=given)


def test_distances_in_words():
    phone = compare.phone("tel")
    assert phone.in_words(0.0, 2) == "the same phone, which no other record has"
    assert phone.in_words(0.0, 5) == "the same phone, which 3 other records have"
    assert phone.in_words(0.2) == "phones with one digit off"
    assert phone.in_words(1.0, 5) == "another phone"
    assert phone.in_words(0.0, 3) == "the same phone, which one other record has"
    assert phone.in_words(float("nan")) == "missing"
    # Of kinds that have no words for equal values, and of one whose values are not shared.
    assert compare.contained_tokens("title").in_words(0.0, 2) == "the same value, which no other record has"
    assert compare.contained_tokens("title").in_words(0.0) == "the words of one are in the other"
    assert compare.count_difference("title").in_words(0.0, 2) == "values about as common"
    for name, kind in kinds.BUILT_IN.items():
        assert kind.levels, name
        if name in MAKERS:
            bounds = [largest for largest, _ in kind.levels]
            assert bounds == sorted(bounds)
            assert bounds[-1] == 1.0


@pytest.mark.parametrize("name", ["amounts", "cells", "content", "languages", "names", "words"])
def test_examples_run(name):
    found = doctest.testmod(importlib.import_module(f"scdp.compare.{name}"))
    assert found.attempted
    assert found.failed == 0


def test_plain_texts_are_read_as_others_are():
    names = [
        "Stephen King",
        "BEN SMITH",
        "Tuan Le",
        "Van Morrison",
        "Mary Ann Jones",
        "SMITH",
        "anna  lee",
        "Dr Who",
        "van Gogh",
        "John Smith Jr",
        "JB Priestley",
        "Jb",
    ]
    for name in [*names, *filter(None, make_records(200, "people", seed=3).data["surname"])]:
        assert parse_person_name(name) == parse_full_name(name)
    addresses = ["12 High Street", "3b Station Rd", "4 flat a", "7 no b", "10 second avenue", "1 hauptstrasse"]
    for address in [*addresses, *filter(None, make_records(200, "people", seed=3).data["street"])]:
        # A mark at the end changes nothing but how the text is read.
        assert parse_address(address) == parse_address(f"{address},")
    assert parse_date("1946-05-16") == parse_date("1946-05-16T00:00") == (1946, 5, 16)
    assert parse_date("1946-16-05") == (1946, 5, 16)
    assert parse_date("1946-17-45") is None
    for phone in ("+44 3501-146662", "(03501) 146662", "0044/3501.146662"):
        assert parse_phone(phone) == parse_phone(f"{phone} ext. 12")
    assert parse_code("C74-6AC") == parse_code("C74_6AC") == "c746ac"


def test_what_words_cost_is_that_of_the_plain_form_also_where_too_few_letters_are_shared():
    rng = np.random.default_rng(11)
    words = sorted({"".join(rng.choice(list("abcdefgh"), rng.integers(1, 9))) for _ in range(150)})
    lexicon = Lexicon.of(words)
    masks = np.zeros((1, lexicon.n_letters), np.uint64)
    n_far = 0
    for one, other in combinations(range(len(words)), 2):
        expected = twins.word_cost(words[one], words[other], ADDRESS.initial, ADDRESS.nickname)
        assert word_cost(lexicon, ADDRESS, masks, one, other) == pytest.approx(expected, abs=1e-12)
        n_far += is_far(lexicon, one, other)
    assert 0.1 < n_far / len(words) ** 2 < 0.4


def test_what_words_cost_is_the_same_however_many_pairs_came_before():
    """What is kept of words gives its place to others."""
    rng = np.random.default_rng(12)
    words = ["".join(rng.choice(list("abcdefgh"), rng.integers(1, 7))) for _ in range(60)]
    lists = [tuple(rng.choice(words, rng.integers(0, 4)).tolist()) for _ in range(40)]
    assert len(words) ** 2 > 4 * KEPT_FOR_A_TEXT * len(lists)
    left, right = (places.astype(np.int64) for places in np.triu_indices(len(lists), k=1))
    for rules in (PERSON, ADDRESS):
        fresh = [WordTable.of(lists, rules).pairs(left[p : p + 1], right[p : p + 1], 1) for p in range(0, len(left), 7)]
        table = WordTable.of(lists, rules)
        for workers in (1, 2):
            found = table.pairs(left, right, workers)
            assert np.array_equal(found[::7], np.concatenate(fresh), equal_nan=True)
        backwards = table.pairs(right[::-1], left[::-1], 2)[::-1]
        assert np.array_equal(backwards, found, equal_nan=True)


def test_sounds_of_many_words_are_those_of_each():
    rng = np.random.default_rng(13)
    letters = list("aaeeiouycchghhkmnpqrsstvwxyzdjfl")
    words = ["".join(rng.choice(letters, rng.integers(1, 9))) for _ in range(5_000)]
    words += ["kn", "knight", "wright", "x", "", "o'neil", "müller", "abc1", "line\nline", "schmidt", "wheee"]
    assert sound_keys(words) == [twins.sound_key(word) for word in words]
    assert sound_keys([]) == []
