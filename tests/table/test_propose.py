"""The proposal reads what columns hold: looks, placeholders, what is left out and why, and at most two comparisons."""

from __future__ import annotations

import doctest
import os
import random
from pathlib import Path

import numpy as np
import pytest

from scdp.table import Records, columns
from scdp.table.columns import look_at
from scdp.table.forms import hints_of
from scdp.table.propose import propose, propose_columns, proposed_comparisons
from scdp.table.readers import read_records
from scdp.table.spec import Spec
from scdp.table.spec_files import commented_toml

N = 200
WORDS = "casino opera river garden winter silver forest summer castle bridge ocean mirror".split()  # noqa: SIM905


def column(name: str, cells: list[str | None]) -> Records:
    return Records({name: np.array(cells, dtype=object)}, "data.csv")


def made(pattern: str, n: int = N) -> list[str | None]:
    """Cells of one sort, many of them different."""
    chance = random.Random(pattern)
    first = ["Peter", "Mary", "Robert", "Anna", "Thomas", "Susan", "James", "Li", "Olga", "José"]
    last = ["Miller", "Smith", "Garcia", "Novák", "Kowalski", "O'Brien", "Nguyen", "Berg", "Rossi", "Lee"]
    values = {
        "day": lambda: str(chance.randint(1, 28)),
        "month": lambda: str(chance.randint(1, 12)),
        "year": lambda: str(chance.randint(1930, 2020)),
        "yy": lambda: f"{chance.randint(0, 99):02d}",
        "first": lambda: chance.choice(first),
        "last": lambda: chance.choice(last) + chance.choice(["", "er", "son", "a"]),
        "digits": lambda: str(chance.randint(100_000, 999_999)),
        "number": lambda: str(chance.randint(1, 300)),
        "letter": lambda: chance.choice("ABCDEFGHJK"),
        "word": lambda: chance.choice(WORDS),
        "big": lambda: str(int(10 ** chance.uniform(0, 6))),
    }
    cells = []
    for _ in range(n):
        cell = pattern
        for key, value in values.items():
            while "{" + key + "}" in cell:
                cell = cell.replace("{" + key + "}", value(), 1)
        cells.append(cell)
    return cells


@pytest.mark.parametrize(
    ("name", "pattern", "look"),
    [
        ("x", "{first}.{last}{number}@mail.com", "email"),
        ("x", "https://{word}.org/{number}", "url"),
        ("x", "+44 {digits} {number}", "phone"),
        ("telephone", "{digits}{digits}", "phone"),
        ("x", "{year}-0{letter}", "code"),
        ("dob", "{year}-{month}-{day}", "date"),
        ("x", "{day}.{month}.{year}", "date"),
        ("x", "{month}/{day}/{year}", "date"),
        ("date", "({year}).", "year"),
        ("year", "{year}", "year"),
        ("x", "{year}", "year"),
        ("x", "${number}.{number}", "amount"),
        ("price", "{number}", "amount"),
        ("revenue", "{big}", "amount"),
        ("length", "{month}:15", "duration"),
        ("runtime", "{number} min", "duration"),
        ("x", "{month}m {day}sec", "duration"),
        ("x", "{number}.5", "number"),
        ("x", "48.{digits}, 11.{digits}", "coordinates"),
        ("x", "{letter}{month} {day}{letter}{letter}", "code"),
        ("soc_sec_id", "{digits}1", "code"),
        ("fname_c1", "{first}", "first name"),
        ("Vorname", "{first}", "first name"),
        ("x", "{first}", "first name"),
        ("lname_c1", "{last}", "last name"),
        ("apellidos", "{last} {last}", "last name"),
        ("x", "{first} {last}", "full name"),
        ("artist", "{last} {word}", "name"),
        ("company", "{word} {word}", "company"),
        ("x", "{word} {last} GmbH", "company"),
        ("manufacturer", "{last}", "company"),
        ("addr", "{number} {word} Street, {last}", "address"),
        ("x", "{number} {word} Road", "address"),
        ("city", "{last}", "place"),
        ("authors", "{first} {last}, {first} {last}, {first} {last}", "people"),
        ("actors", "{first} {last}|{first} {last}", "people"),
        ("author", "{last}, {letter}., and {last}, {letter}.", "people"),
        ("genres", "{word};{word};{word}", "list"),
        ("title", "The {word} of the {word} and the {word} {last} {number}", "long text"),
        ("title", "{last} {word} camera with lens {letter}{letter}{digits}{letter} in black", "text with codes"),
        ("title", "{word} {word} {last}", "title"),
        ("Song_Name", "{word} {last} (live)", "title"),
        ("film", "The {word} {number}", "title"),
        ("year", "'{yy}", "year"),
        ("year", "({year}).", "year"),
        ("genre", "{word}, {word}", "list"),
        ("mention", "Mr. {last}", "proper noun"),
        ("venue", "{word} {word} {last}", "venue"),
        ("x", "{word} {last}", "short text"),
        ("name", "{last} {number}GB Hard Drive - ST{digits}", "text with codes"),
        ("plot", "{first} and {last} drive to a place by the {word} road in the court of the {word}", "long text"),
        ("x", "{number} ways to drive a {word} on the {word} road and all that is said about the {word}", "long text"),
        ("address", "San {last}, CA", "place"),
        ("x", "San {last}, CA", "place"),
        ("x", "{number}.5%", "amount"),
        ("x", "${number}.7 million", "amount"),
        ("x", "{number}.{yy} €", "amount"),
        ("ssn", "{number}{day}-{yy}-{yy}{yy}", "code"),
        ("isbn", "978-0-{number}1-{digits}-3", "code"),
        ("zip", "{digits}", "code"),
        ("doi", "10.1145/{digits}.{digits}", "code"),
        ("x", "{letter}{digits}{digits}", "identifier"),
        ("dob", "{day} de mayo de {year}", "date"),
        ("x", "{day} maja {year}", "date"),
        ("created_at", "{year}-{month}-{day}", "record time"),
        ("last_updated", "{year}-{month}-{day} 12:{day}:00", "record time"),
        ("x", '["{word}", "{word}"]', "list"),
        ("Creator", "{first} {last} and {first} {last}", "people"),
        ("creator", "{first} {last}", "full name"),
        ("starring", "{first} {last}, {first} {last}", "people"),
        ("artist", "{first} {last}", "name"),
        ("artist", "{word} {last}", "name"),
        ("span", "the {last}", "proper noun"),
        ("pages", "{number}-{digits}", "pages"),
        ("weight", "{number} lbs", "amount"),
        ("x", "{number}.5 kg", "amount"),
        ("height", "1{yy} cm", "amount"),
        ("RatingCount", "{day},{yy}7", "amount"),
        ("text", "the {last}", "proper noun"),
        ("x", "{number}.5 x {number}.2 cm", "short text"),
        ("x", "{last}", "word"),
    ],
)
def test_looks(name, pattern, look):
    cells = made(pattern)
    if look in ("code", "phone"):
        cells[1] = cells[0]
    assert look_at(column(name, cells), name).look == look


@pytest.mark.parametrize(
    ("name", "cells", "look"),
    [
        ("x", ["same"] * 30, "constant"),
        ("x", [None] * 30, "empty"),
        ("x", [f"K-{k:05d}" for k in range(30)], "identifier"),
        ("id", [str(k) for k in range(1, 200)], "identifier"),
        ("sex", ["m", "f", "f"] * 30, "category"),
        ("x", ["true", "false"] * 30, "category"),
        ("Bemerkungen", ["hat angerufen", "ist umgezogen", "wartet noch"] * 30, "notes"),
    ],
)
def test_looks_of_few_or_all_different_cells(name, cells, look):
    assert look_at(column(name, cells), name).look == look


def test_placeholders_are_said_and_round_trip(tmp_path):
    dates = [*made("{year}-0{month}-1{month}"), "9999-99-99", "9999-99-99", "n/a"]
    names = [*made("{word} {last} Inc."), "Unknown", "unknown", "Null"]
    records = Records({"born": np.array(dates, dtype=object), "firm": np.array(names, dtype=object)})
    rows = propose_columns(records, records.names)
    assert [row.missing for row in rows] == [("9999-99-99", "n/a"), ("Null", "Unknown")]
    assert rows[1].note == "missing: 'Null', 'Unknown'"
    firm = rows[1].comparisons[0]
    assert firm.missing == ("Null", "Unknown")
    assert (firm.prepare(records).codes[-3:] == -1).all()
    spec = Spec("e", proposed_comparisons(records, records.names))
    (tmp_path / "spec.toml").write_text(spec.to_toml(), encoding="utf-8")
    assert Spec.from_toml(tmp_path / "spec.toml") == spec


@pytest.mark.parametrize(
    ("name", "cells", "look"),
    [
        ("price", ["$1,299.99", "1299.99", "$20", "18.5"] * 30, "amount"),
        ("x", ["$1,299.99", "1299.99", "$20", "18.5"] * 30, "amount"),
        ("revenue", ["900M", "$7.7 million", "123456"] * 30, "amount"),
        ("dob", ["1980", "5/6/1981", "4 de mayo de 1965", "1979-03-02"] * 30, "date"),
        ("genre", ["Drama, Comedy", "Drama", "Comedy|Action", "Action", "Drama, Action"] * 30, "list"),
        ("x", ["Drama;Comedy", "Drama|Action", "Comedy|Action"] * 30, "list"),
    ],
)
def test_looks_of_columns_in_two_formats(name, cells, look):
    assert look_at(column(name, cells), name).look == look


@pytest.mark.parametrize(
    ("cells", "missing"),
    [
        (["000-00-0000", "123-45-6700"] * 30, ("000-00-0000",)),
        (["(000) 000-0000", "(415) 123-4567"] * 30, ("(000) 000-0000",)),
        (["none@none.com", "ann@x.com"] * 30, ("none@none.com",)),
        (["999", "12", "55"] * 30, ("999",)),
        (["999", "12", "998"] * 30, ()),
        (["0.00", "12.50"] * 30, ()),
        (["test"] * 2 + ["Ann"] * 60, ("test",)),
        (["test", "train"] * 30, ()),
    ],
)
def test_placeholders_with_marks(cells, missing):
    assert look_at(column("x", cells), "x").missing == missing


def test_mixed_lists_share_their_members():
    records = column("genre", ["Drama, Comedy", "Comedy|Drama", "Drama", "Action"] * 10)
    (row,) = propose_columns(records, ["genre"])
    np.testing.assert_array_equal(row.comparisons[0].block(["Drama, Comedy"], ["Comedy|Drama", "Drama"]), [[0.0, 0.25]])


def test_a_rare_name_is_no_placeholder():
    assert look_at(column("x", [*made("{last}"), "None"]), "x").missing == ()


def test_columns_that_belong_together_are_compared_together():
    records = Records(
        {
            name: np.array(made(pattern), dtype=object)
            for name, pattern in {
                "given_name": "{first}", "surname": "{last}", "by": "{year}", "bm": "{month}", "bd": "{day}",
                "lat": "48.{digits}", "lon": "11.{digits}", "street_no": "{number}", "street": "{last} {word} road",
                "title": "{word} camera {letter}{letter}{digits} with a big lens and a bag",
                "text": "the {word} camera {letter}{letter}{digits} is a {word} thing for every {word}",
            }.items()
        }
    )  # fmt: skip
    fields = proposed_comparisons(records, records.names)
    assert [comparison.name for comparison in fields] == [
        "person_name(given_name)", "person_name(given_name + surname)", "person_name(surname)",
        "date(by + bm + bd)", "geo(lat + lon)", "address(street_no + street)", "codes_in_text(title)",
        "soft_tokens(title)", "tfidf(text)", "codes_in_text(title + text)",
    ]  # fmt: skip
    assert max(len(row.comparisons) for row in propose_columns(records, records.names)) == 2


@pytest.mark.parametrize(
    ("patterns", "wanted"),
    [
        (
            {"number": "{day}", "title": "{word} {word}", "length": "{month}m {day}sec", "artist": "{last} {word}",
             "album": "{word} {last} ({year})", "year": "'{yy}"},
            "code title duration name title year",
        ),
        (
            {"title": "The {word} {last}", "year": "{year}", "director": "{first} {last}", "runtime": "1{day} min",
             "actors": "{first} {last}, {first} {last}, {first} {last}", "genres": "{word}, {word}"},
            "title year full-name duration people list",
        ),
        (
            {"title": "{last} {word} camera with lens {letter}{letter}{digits} in black", "manufacturer": "{last}",
             "price": "{number}.99"},
            "text-with-codes company amount",
        ),
        (
            {"name": "{first} {last}", "title": "A {word} for {word} {word} in the {word} of {word}",
             "coauthors": "{first} {last}; {first} {last}", "affiliation": "University of {last}", "year": "{year}"},
            "full-name long-text people company year",
        ),
    ],
    ids=["music", "films", "products", "authors"],
)  # fmt: skip
def test_tables_of_known_shapes(patterns, wanted):
    records = Records({name: np.array(made(each), dtype=object) for name, each in patterns.items()})
    rows = propose_columns(records, records.names)
    assert " ".join(row.looks_like.replace(" ", "-") for row in rows) == wanted
    assert all(1 <= len(row.comparisons) <= 2 for row in rows)


def test_names_in_documents_are_names_in_texts():
    cells = [*made("{first} {last}"), *made("{last}")]
    docs = [f"d{k % 7}" for k in range(len(cells))]
    labels = [f"e{k // 3}" for k in range(len(cells))]
    columns = {"who": labels, "doc": docs, "name": cells}
    records = Records({name: np.array(column, dtype=object) for name, column in columns.items()})
    names = {group: propose(records, "who", None, group).names for group in (None, "doc")}
    assert names["doc"] == ("proper_noun(name)", "company(name)")
    assert "person_name(name)" in names[None]


def test_mentions_are_names_and_what_documents_share_is_left_out():
    cells = made("the {word} of {last}")
    docs = [f"d{k % 7}" for k in range(N)]
    columns = {"who": [f"e{k // 3}" for k in range(N)], "doc": docs, "text": cells, "genre": [f"g{d}" for d in docs]}
    records = Records({name: np.array(column, dtype=object) for name, column in columns.items()})
    rows = propose_columns(records, ["text", "genre"], "who", group="doc")
    assert rows[0].looks_like == "proper noun"
    assert rows[1].note == "the same in all records of a group"
    assert propose(records, "who", None, "doc").names == ("proper_noun(text)", "company(text)")


def test_what_repeats_others_is_left_out():
    first, last = made("{first}"), made("{last}")
    label = [f"p{k // 2}" for k in range(N)]
    records = Records(
        {
            "first": np.array(first, dtype=object),
            "last": np.array(last, dtype=object),
            "name": np.array([f"{b}, {a}" for a, b in zip(first, last, strict=True)], dtype=object),
            "orig_label": np.array([*label[:-9], *"abcdefghi"], dtype=object),
            "number": np.array([f"7{k // 2:04d}" for k in range(N)], dtype=object),
            "source": np.array(["a", "b"] * (N // 2), dtype=object),
            "label": np.array(label, dtype=object),
        }
    )
    rows = propose_columns(records, records.names[:-1], "label")
    said = {row.column: row.note for row in rows if not row.comparisons}
    assert said == {
        "name": "repeats first and last",
        "orig_label": "repeats the label; add it to the spec if it is known beforehand",
        "number": "repeats the label; add it to the spec if it is known beforehand",
        "source": "says where a record is from, not what it is",
    }
    text = commented_toml(propose(records, "label"), records)
    assert "# Not compared: name (repeats first and last; 0% missing" in text


def test_the_proposal_is_a_table():
    records = Records({"tel": np.array([*made("+44 {digits} {number}"), "n/a"], dtype=object)})
    (row,) = propose_columns(records, ["tel"])
    assert (row.column, row.looks_like, row.comparisons[0].name) == ("tel", "phone", "phone(tel)")
    assert 1 <= len(row.examples) <= 3
    assert row.note == "missing: 'n/a'"


def test_names_of_columns_hint():
    assert hints_of("fname_c1") == {"first name"}
    assert hints_of("dateOfBirth") == {"date"}
    assert hints_of("Straße") == {"address"}
    assert hints_of("q17") == frozenset()
    assert doctest.testmod(columns).failed == 0


DATA = Path(os.environ.get("SCDP_DATA", ""))


@pytest.mark.parametrize(
    ("file", "roles", "looks"),
    [
        (
            "crm/records.csv",
            ("cluster_id", "record_id"),
            "first name, last name, company, email, phone, address, code, date, code, category, amount, notes, "
            "constant, constant, constant",
        ),
        ("restaurant/records.csv", ("cluster_id", "record_id"), "name, address, place, phone, short text"),
        (
            "rldata500/records.csv",
            ("cluster_id", "record_id"),
            "first name, first name, last name, last name, year, month, day",
        ),
        ("dblp-acm/records.csv", ("cluster_id", "record_id"), "category, category, long text, people, venue, year"),
    ],
)
def test_real_tables(file, roles, looks):
    path = DATA / file
    if not os.environ.get("SCDP_DATA") or not path.exists():
        if os.environ.get("SCDP_REQUIRE_DATA"):
            raise AssertionError(f"{file} is not there")
        pytest.skip(f"data set not on this machine: {file}")
    records = read_records(path)
    rows = propose_columns(records, [name for name in records.names if name not in roles], roles[0])
    assert ", ".join(row.looks_like for row in rows) == looks
    assert max(len(row.comparisons) for row in rows) <= 2
