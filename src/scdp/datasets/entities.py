"""The generator's entities: a count and a stream enter; true values, in every way of writing them, leave."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from importlib.resources import files
from itertools import cycle, product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scdp.table import Column


def _read_words() -> dict[str, Any]:
    found = tomllib.loads(files("scdp.datasets").joinpath("words.toml").read_text(encoding="utf-8"))
    return {name: words.split() if isinstance(words, str) else words for name, words in found.items()}


WORDS = _read_words()


def table(words: Iterable[str]) -> Column:
    """The words as an object array, so that codes index it."""
    return np.array(list(words), dtype=object)


def combine(*parts: Sequence[str]) -> list[str]:
    """Every concatenation once, in a scattered but fixed order: neighbours in rank should not look alike."""
    words = list(dict.fromkeys("".join(pieces) for pieces in product(*parts)))
    stride = 7919  # a prime that divides none of our table sizes, so each word is met exactly once
    return [words[rank * stride % len(words)] for rank in range(len(words))]


@cache
def make_first_names() -> Column:
    generated = combine(WORDS["first_name_starts"], WORDS["first_name_ends"])
    return table(dict.fromkeys(WORDS["common_first_names"] + generated))


@cache
def make_surnames() -> Column:
    generated = combine(WORDS["surname_starts"], WORDS["surname_middles"], WORDS["surname_ends"])
    return table(dict.fromkeys(WORDS["common_surnames"] + generated))


@cache
def make_cities() -> Column:
    return table(combine(WORDS["place_starts"], WORDS["place_ends"]))


@cache
def make_streets() -> tuple[Column, Column]:
    """Street names in full and with the kind abbreviated, at the same codes."""
    pairs = [(word, kind) for kind in WORDS["street_kinds"] for word in WORDS["street_words"]]
    return (
        table(f"{word} {kind}" for word, kind in pairs),
        table(f"{word} {WORDS['street_kinds'][kind]}" for word, kind in pairs),
    )


@cache
def birth_dates() -> Column:
    days = np.arange(np.datetime64("1930-01-01"), np.datetime64("2010-01-01"))
    return table(days.astype(str).tolist())


@cache
def numbers(digits: int) -> Column:
    """Zero-padded numbers of that many digits."""
    return table(f"{number:0{digits}d}" for number in range(10**digits))


@cache
def make_venues() -> tuple[Column, Column]:
    """Venue names in full and abbreviated, at the same codes."""
    parts = list(product(WORDS["venue_fields"], WORDS["venue_topics"], WORDS["venue_kinds"]))
    return (
        table(f"{kind} {field} {topic}" for field, topic, kind in parts),
        table(f"{WORDS['venue_kinds'][kind]} {field[:4]}. {topic[:4]}." for field, topic, kind in parts),
    )


@cache
def make_companies() -> tuple[Column, Column, Column]:
    """Names of companies in full and without their legal form, and their domains, at the same codes."""
    trades, forms = cycle(WORDS["company_trades"]), cycle(WORDS["company_forms"])
    parts = list(zip(WORDS["place_starts"], trades, forms, strict=False))
    return (
        table(f"{name} {trade} {form}" for name, trade, form in parts),
        table(f"{name} {trade}" for name, trade, _ in parts),
        table(f"{name.lower()}.example" for name, _, _ in parts),
    )


Codes = NDArray[np.int64]
# For each field the ways of writing it ("full"; "short" and "swapped" where they differ), a row an entity.
Forms = Mapping[str, Mapping[str, Column]]

HOUSEHOLD_SHARE = 0.10  # people with another person's surname and home
NAMESAKE_SHARE = 0.03  # people with another person's whole name, beyond what frequencies bring about
SEQUEL_SHARE = 0.10  # papers by the authors of another paper, on its subject
REPRINT_SHARE = 0.05  # papers with the authors and the title of another, which appeared elsewhere
SUBTITLE_SHARE = 0.4
PAPERS_PER_AUTHOR = 2
MOST_AUTHORS = 4

PEOPLE_FIELDS = ("first_name", "surname", "birth_date", "street", "city", "postcode", "phone")
CONTACT_FIELDS = ("first_name", "last_name", "company", "email", "phone", "postcode")
CITATION_FIELDS = ("author", "title", "venue", "year", "pages")
HOME_FIELDS = frozenset({"street", "city", "postcode"})


def zipf_codes(rng: np.random.Generator, n_words: int, exponent: float, size: int) -> Codes:
    """Ranks 0, 1, ... drawn with probability proportional to 1 / (rank + 1) ** exponent."""
    cumulative = np.cumsum(np.arange(1, n_words + 1, dtype=float) ** -exponent)
    # A draw may round up to the total, which would be one rank too far.
    return np.minimum(np.searchsorted(cumulative, rng.random(size) * cumulative[-1]), n_words - 1)


def make_people(n_entities: int, zipf: float, rng: np.random.Generator) -> Forms:
    """People: Zipf names, a home, a birth date and a phone; some share a home or a name with another."""
    first_names, surnames = make_first_names(), make_surnames()
    source = rng.integers(n_entities, size=n_entities)
    itself = np.arange(n_entities)
    household = np.where(rng.random(n_entities) < HOUSEHOLD_SHARE, source, itself)
    namesake = np.where(rng.random(n_entities) < NAMESAKE_SHARE, source, itself)
    family = np.where(namesake == itself, household, namesake)

    first = first_names[zipf_codes(rng, len(first_names), zipf, n_entities)[namesake]]
    surname = surnames[zipf_codes(rng, len(surnames), zipf, n_entities)[family]]
    dates = birth_dates()
    return {
        "first_name": {"full": first, "short": _initials(first), "swapped": surname},
        "surname": {"full": surname, "swapped": first},
        "birth_date": {"full": dates[rng.integers(len(dates), size=n_entities)]},
        **_homes(household, zipf, rng),
        "phone": _phones(n_entities, rng),
    }


def _initials(names: Column) -> Column:
    return table(name[0] + "." for name in names)


def _homes(household: Codes, zipf: float, rng: np.random.Generator) -> dict[str, dict[str, Column]]:
    n_homes = len(household)
    cities, (streets, short_streets) = make_cities(), make_streets()
    short_cities = table(name[:4] + "." for name in cities)
    city = zipf_codes(rng, len(cities), zipf, n_homes)[household]
    street = rng.integers(len(streets), size=n_homes)[household]
    house = table(f"{number} " for number in range(1, 200))[rng.integers(199, size=n_homes)[household]]
    district = rng.integers(100, size=n_homes)[household]
    return {
        "street": {"full": house + streets[street], "short": house + short_streets[street]},
        "city": {"full": cities[city], "short": short_cities[city]},
        "postcode": {"full": numbers(3)[100 + city] + numbers(2)[district]},
    }


def _phones(n_entities: int, rng: np.random.Generator) -> dict[str, Column]:
    digits = numbers(3)
    area, exchange, line = (digits[codes] for codes in rng.integers(1000, size=(3, n_entities)))
    return {"full": "0" + area + "-" + exchange + "-" + line, "short": area + exchange + line}


def make_citations(n_entities: int, zipf: float, rng: np.random.Generator) -> Forms:
    """Papers: authors from a shared pool, a title, a venue, a year and pages; some follow another."""
    source = rng.integers(n_entities, size=n_entities)
    itself = np.arange(n_entities)
    kin = rng.random(n_entities)
    reprint = np.where(kin < REPRINT_SHARE, source, itself)
    origin = np.where(kin < REPRINT_SHARE + SEQUEL_SHARE, source, itself)
    venues, short_venues = make_venues()
    venue = zipf_codes(rng, len(venues), zipf, n_entities)
    years = table(str(year) for year in range(1975, 2025))
    return {
        "author": _authors(origin, zipf, rng),
        "title": _titles(origin, reprint, zipf, rng),
        "venue": {"full": venues[venue], "short": short_venues[venue]},
        "year": {"full": years[rng.integers(len(years), size=n_entities)]},
        "pages": _pages(n_entities, rng),
    }


def _authors(origin: Codes, zipf: float, rng: np.random.Generator) -> dict[str, Column]:
    n_papers = len(origin)
    pool_size = max(MOST_AUTHORS, n_papers // PAPERS_PER_AUTHOR)
    first_names, surnames = make_first_names(), make_surnames()
    first = first_names[zipf_codes(rng, len(first_names), zipf, pool_size)]
    surname = surnames[zipf_codes(rng, len(surnames), zipf, pool_size)]
    team = zipf_codes(rng, pool_size, zipf / 2, MOST_AUTHORS * n_papers).reshape(MOST_AUTHORS, n_papers)[:, origin]
    n_authors = rng.integers(1, MOST_AUTHORS + 1, size=n_papers)[origin]
    written = {
        "full": (first + " " + surname, " and "),
        "short": (_initials(first) + " " + surname, ", "),
        "swapped": (surname + ", " + first, " and "),
    }
    return {form: _join(names[team], n_authors, link) for form, (names, link) in written.items()}


def _join(names: Column, counts: Codes, link: str) -> Column:
    """The first `counts[i]` names of column i, joined by `link`."""
    joined = names[0].copy()
    for position in range(1, len(names)):
        rows = np.flatnonzero(counts > position)
        joined[rows] = joined[rows] + link + names[position, rows]
    return joined


def _titles(origin: Codes, reprint: Codes, zipf: float, rng: np.random.Generator) -> dict[str, Column]:
    """Titles "adjective method link adjective subject", some with a subtitle that the short form drops."""

    def draw(words: list[str], rows: Codes) -> Column:
        return table(words)[zipf_codes(rng, len(words), zipf / 2, len(rows))[rows]]

    beginning = draw(WORDS["title_adjectives"], reprint) + " " + draw(WORDS["title_methods"], reprint)
    subject = draw(WORDS["title_adjectives"], origin) + " " + draw(WORDS["title_subjects"], origin)
    short = beginning + " " + draw(WORDS["title_links"], reprint) + " " + subject
    full = short.copy()
    longer = np.flatnonzero(rng.random(len(origin)) < SUBTITLE_SHARE)
    full[longer] = full[longer] + ": " + draw(WORDS["subtitles"], reprint)[longer]
    return {"full": full, "short": short}


def _pages(n_entities: int, rng: np.random.Generator) -> dict[str, Column]:
    start = rng.integers(1, 900, size=n_entities)
    page = table(str(number) for number in range(1000))
    first, last = page[start], page[start + rng.integers(3, 31, size=n_entities)]
    return {"full": first + "-" + last, "short": "pp. " + first}


def make_contacts(n_entities: int, zipf: float, rng: np.random.Generator) -> Forms:
    """Customers: Zipf names, a company, an address of mail, a phone and a postcode; colleagues share a company."""
    first_names, surnames = make_first_names(), make_surnames()
    first = first_names[zipf_codes(rng, len(first_names), zipf, n_entities)]
    last = surnames[zipf_codes(rng, len(surnames), zipf, n_entities)]
    companies, short_companies, domains = make_companies()
    company = zipf_codes(rng, len(companies), zipf, n_entities)
    mailbox = table(f"{a}.{b}".lower() for a, b in zip(first, last, strict=True))
    private = table(f"{b}{year}".lower() for b, year in zip(last, rng.integers(40, 99, n_entities), strict=True))
    area, line = rng.integers(1000, 9999, n_entities), rng.integers(100_000, 999_999, n_entities)
    digits = list(zip(area.tolist(), line.tolist(), strict=True))
    postcode = rng.integers(10_000, 99_999, n_entities)
    return {
        "first_name": {"full": first, "short": _initials(first), "swapped": last},
        "last_name": {"full": last, "swapped": first},
        "company": {"full": companies[company], "short": short_companies[company]},
        "email": {"full": mailbox + "@" + domains[company], "swapped": private + "@mail.example"},
        "phone": {"full": table(f"+44 {a} {b}" for a, b in digits), "short": table(f"0{a} {b}" for a, b in digits)},
        "postcode": {"full": table(map(str, postcode.tolist()))},
    }
