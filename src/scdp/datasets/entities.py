"""The generator's entities: a count and a stream enter; true values, in every way of writing them, leave."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from scdp.datasets import vocabulary
from scdp.table.records import Column

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
    first_names, surnames = vocabulary.first_names(), vocabulary.surnames()
    source = rng.integers(n_entities, size=n_entities)
    itself = np.arange(n_entities)
    household = np.where(rng.random(n_entities) < HOUSEHOLD_SHARE, source, itself)
    namesake = np.where(rng.random(n_entities) < NAMESAKE_SHARE, source, itself)
    family = np.where(namesake == itself, household, namesake)

    first = first_names[zipf_codes(rng, len(first_names), zipf, n_entities)[namesake]]
    surname = surnames[zipf_codes(rng, len(surnames), zipf, n_entities)[family]]
    dates = vocabulary.birth_dates()
    return {
        "first_name": {"full": first, "short": _initials(first), "swapped": surname},
        "surname": {"full": surname, "swapped": first},
        "birth_date": {"full": dates[rng.integers(len(dates), size=n_entities)]},
        **_homes(household, zipf, rng),
        "phone": _phones(n_entities, rng),
    }


def _initials(names: Column) -> Column:
    return vocabulary.table(name[0] + "." for name in names)


def _homes(household: Codes, zipf: float, rng: np.random.Generator) -> dict[str, dict[str, Column]]:
    n_homes = len(household)
    cities, (streets, short_streets) = vocabulary.cities(), vocabulary.streets()
    short_cities = vocabulary.table(name[:4] + "." for name in cities)
    city = zipf_codes(rng, len(cities), zipf, n_homes)[household]
    street = rng.integers(len(streets), size=n_homes)[household]
    house = vocabulary.table(f"{number} " for number in range(1, 200))[
        rng.integers(199, size=n_homes)[household]
    ]
    district = rng.integers(100, size=n_homes)[household]
    return {
        "street": {"full": house + streets[street], "short": house + short_streets[street]},
        "city": {"full": cities[city], "short": short_cities[city]},
        "postcode": {"full": vocabulary.numbers(3)[100 + city] + vocabulary.numbers(2)[district]},
    }


def _phones(n_entities: int, rng: np.random.Generator) -> dict[str, Column]:
    digits = vocabulary.numbers(3)
    area, exchange, line = (digits[codes] for codes in rng.integers(1000, size=(3, n_entities)))
    return {"full": "0" + area + "-" + exchange + "-" + line, "short": area + exchange + line}


def make_citations(n_entities: int, zipf: float, rng: np.random.Generator) -> Forms:
    """Papers: authors from a shared pool, a title, a venue, a year and pages; some follow another."""
    source = rng.integers(n_entities, size=n_entities)
    itself = np.arange(n_entities)
    kin = rng.random(n_entities)
    reprint = np.where(kin < REPRINT_SHARE, source, itself)
    origin = np.where(kin < REPRINT_SHARE + SEQUEL_SHARE, source, itself)
    venues, short_venues = vocabulary.venues()
    venue = zipf_codes(rng, len(venues), zipf, n_entities)
    years = vocabulary.table(str(year) for year in range(1975, 2025))
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
    first_names, surnames = vocabulary.first_names(), vocabulary.surnames()
    first = first_names[zipf_codes(rng, len(first_names), zipf, pool_size)]
    surname = surnames[zipf_codes(rng, len(surnames), zipf, pool_size)]
    team = zipf_codes(rng, pool_size, zipf / 2, MOST_AUTHORS * n_papers).reshape(MOST_AUTHORS, n_papers)[
        :, origin
    ]
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
        return vocabulary.table(words)[zipf_codes(rng, len(words), zipf / 2, len(rows))[rows]]

    beginning = draw(vocabulary.TITLE_ADJECTIVES, reprint) + " " + draw(vocabulary.TITLE_METHODS, reprint)
    subject = draw(vocabulary.TITLE_ADJECTIVES, origin) + " " + draw(vocabulary.TITLE_SUBJECTS, origin)
    short = beginning + " " + draw(vocabulary.TITLE_LINKS, reprint) + " " + subject
    full = short.copy()
    longer = np.flatnonzero(rng.random(len(origin)) < SUBTITLE_SHARE)
    full[longer] = full[longer] + ": " + draw(vocabulary.SUBTITLES, reprint)[longer]
    return {"full": full, "short": short}


def _pages(n_entities: int, rng: np.random.Generator) -> dict[str, Column]:
    start = rng.integers(1, 900, size=n_entities)
    page = vocabulary.table(str(number) for number in range(1000))
    first, last = page[start], page[start + rng.integers(3, 31, size=n_entities)]
    return {"full": first + "-" + last, "short": "pp. " + first}


def make_contacts(n_entities: int, zipf: float, rng: np.random.Generator) -> Forms:
    """Customers: Zipf names, a company, an address of mail, a phone and a postcode; colleagues share a company."""
    first_names, surnames = vocabulary.first_names(), vocabulary.surnames()
    first = first_names[zipf_codes(rng, len(first_names), zipf, n_entities)]
    last = surnames[zipf_codes(rng, len(surnames), zipf, n_entities)]
    companies, short_companies, domains = vocabulary.companies()
    company = zipf_codes(rng, len(companies), zipf, n_entities)
    mailbox = vocabulary.table(f"{a}.{b}".lower() for a, b in zip(first, last, strict=True))
    private = vocabulary.table(
        f"{b}{year}".lower() for b, year in zip(last, rng.integers(40, 99, n_entities), strict=True)
    )
    area, line = rng.integers(1000, 9999, n_entities), rng.integers(100_000, 999_999, n_entities)
    digits = list(zip(area.tolist(), line.tolist(), strict=True))
    postcode = rng.integers(10_000, 99_999, n_entities)
    return {
        "first_name": {"full": first, "short": _initials(first), "swapped": last},
        "last_name": {"full": last, "swapped": first},
        "company": {"full": companies[company], "short": short_companies[company]},
        "email": {"full": mailbox + "@" + domains[company], "swapped": private + "@mail.example"},
        "phone": {
            "full": vocabulary.table(f"+44 {a} {b}" for a, b in digits),
            "short": vocabulary.table(f"0{a} {b}" for a, b in digits),
        },
        "postcode": {"full": vocabulary.table(map(str, postcode.tolist()))},
    }
