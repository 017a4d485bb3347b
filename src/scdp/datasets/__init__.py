"""Made-up records with known clusters: sizes, noise levels and a seed enter, `Labelled` records leave. And tables for
tutorials: a name enters; the columns of a few files leave, the same on every machine, made offline.

The noise model (docs/generator.md): cluster sizes are geometric, names follow Zipf's law, every record has a
hidden reference type that says how it is written, and then cells are mistyped and go missing independently.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from scdp.datasets.entities import (
    CITATION_FIELDS,
    CONTACT_FIELDS,
    HOME_FIELDS,
    PEOPLE_FIELDS,
    Codes,
    Forms,
    make_citations,
    make_contacts,
    make_people,
)
from scdp.errors import InputError
from scdp.table import Column, Records

__all__ = ["Labelled", "Task", "make_records", "make_tables"]


@dataclass(frozen=True)
class Labelled:
    """Items with their gold clusters: `data` is Records or a float array (items, features).

    `types` are the hidden reference types of records that were made up.

    Attributes
    ----------
    data : Records or array (item, feature)
        The items.
    clusters : array (item,)
        The gold cluster of each item.
    ids : array (item,)
        The identifier of each item.
    groups : array (item,), optional
        The group of each item.

    Example
    -------
    >>> items = Labelled(np.zeros((3, 2)), np.array(["a", "a", "b"]), np.arange(3))
    >>> len(items)
    3
    """

    data: Records | NDArray[np.float64]
    clusters: NDArray[Any]
    ids: NDArray[Any]
    groups: NDArray[Any] | None = None
    types: NDArray[np.int64] | None = None

    def __len__(self) -> int:
        return len(self.clusters)

    @property
    def n_clusters(self) -> int:
        return len(set(self.clusters.tolist()))

    def take(self, rows: NDArray[Any]) -> Labelled:
        """The given rows (indices or a boolean mask), in that order.

        Parameters
        ----------
        rows : array
            Row numbers, or a boolean for each row.

        Returns
        -------
        Labelled

        Example
        -------
        >>> items = Labelled(np.zeros((3, 2)), np.array(["a", "a", "b"]), np.arange(3))
        >>> items.take(np.array([2, 0])).clusters.tolist()
        ['b', 'a']
        """
        data = self.data.take(rows) if isinstance(self.data, Records) else self.data[rows]
        groups, types = (None if each is None else each[rows] for each in (self.groups, self.types))
        return Labelled(data, self.clusters[rows], self.ids[rows], groups, types)


@dataclass(frozen=True)
class Task:
    """A supervised clustering task. `note` says which data it is and what it stands in for.

    Attributes
    ----------
    train, test : Labelled
        What is learned from, and what is clustered.
    note : str
        Which data it is, and what it stands in for.

    Example
    -------
    >>> items = Labelled(np.zeros((3, 2)), np.array(["a", "a", "b"]), np.arange(3))
    >>> Task("points", items.take(np.array([0, 1])), items.take(np.array([2])), "Made up.").test.n_clusters
    1
    """

    name: str
    train: Labelled
    test: Labelled
    note: str


MORE_TYPOS = 0.25  # chance that a mistyped cell gets one more typo: their number is geometric
INSERT, DELETE, TRANSPOSE, SUBSTITUTE = range(4)


@dataclass(frozen=True)
class ReferenceType:
    """How one kind of record is written: its share, the fields not written in full, and its care."""

    name: str
    share: float
    short: tuple[str, ...] = ()
    swapped: tuple[str, ...] = ()
    missing_factor: float = 1.0
    typo_factor: float = 1.0

    def form(self, field: str) -> str:
        return "short" if field in self.short else "swapped" if field in self.swapped else "full"


PEOPLE_TYPES = (
    ReferenceType("full", 0.40),
    ReferenceType("initials", 0.18, short=("first_name",)),
    ReferenceType("sparse", 0.14, missing_factor=6),
    ReferenceType("abbreviated", 0.12, short=("street", "city", "phone")),
    ReferenceType("sloppy", 0.10, missing_factor=2, typo_factor=6),
    ReferenceType("swapped", 0.06, swapped=("first_name", "surname")),
)
CITATION_TYPES = (
    ReferenceType("full", 0.34),
    ReferenceType("initials", 0.24, short=("author",)),
    ReferenceType("sparse", 0.12, short=("title",), missing_factor=6),
    ReferenceType("abbreviated", 0.16, short=("author", "title", "venue", "pages")),
    ReferenceType("sloppy", 0.08, missing_factor=2, typo_factor=6),
    ReferenceType("swapped", 0.06, swapped=("author",)),
)
CONTACT_TYPES = (
    ReferenceType("full", 0.40),
    ReferenceType("initials", 0.18, short=("first_name",)),
    ReferenceType("sparse", 0.12, missing_factor=5),
    ReferenceType("abbreviated", 0.16, short=("company", "phone")),
    ReferenceType("private", 0.08, swapped=("email",)),
    ReferenceType("swapped", 0.06, swapped=("first_name", "last_name")),
)
# What a record is named by is always there; everything else may be missing.
REQUIRED_FIELDS = frozenset({"surname", "last_name", "title"})


def write_cells(
    forms: Mapping[str, Column], named_forms: list[str], types: NDArray[np.int64], rows: NDArray[np.int64]
) -> Column:
    """Cell i is entity `rows[i]`'s value in the form of its reference type, `named_forms[types[i]]`."""
    cells = forms["full"][rows]
    for code, form in enumerate(named_forms):
        if form != "full":
            written = np.flatnonzero(types == code)
            cells[written] = forms[form][rows[written]]
    return cells


def add_typos(cells: Column, chance: NDArray[np.float64], rng: np.random.Generator) -> None:
    """Mistype cell i with probability `chance[i]`, in place."""
    rows = np.flatnonzero(rng.random(len(cells)) < chance)
    while rows.size:
        kinds = rng.integers(4, size=rows.size).tolist()
        places = rng.random(rows.size).tolist()
        shifts = rng.integers(1, 26, size=rows.size).tolist()
        for row, kind, place, shift in zip(rows.tolist(), kinds, places, shifts, strict=True):
            cells[row] = mistype(cells[row], kind, place, shift)
        rows = rows[rng.random(rows.size) < MORE_TYPOS]


def mistype(cell: str, kind: int, place: float, shift: int) -> str:
    """One typo at the given fraction of the cell; the result differs from `cell` and is never empty."""
    at = int(place * len(cell))
    here, rest = cell[at], cell[at + 1 :]
    if kind == INSERT:
        typed = cell[:at] + _change_character(here, shift) + cell[at:]
    elif kind == DELETE and len(cell) > 1:
        typed = cell[:at] + rest
    elif kind == TRANSPOSE and rest and rest[0] != here:
        typed = cell[:at] + rest[0] + here + rest[1:]
    else:
        typed = cell[:at] + _change_character(here, shift) + rest
    return typed.strip()


def _change_character(character: str, shift: int) -> str:
    """A different character of the same class (digit, capital); any other becomes a small letter."""
    if character.isdigit():
        return str((int(character) + shift % 9 + 1) % 10)
    base = ord("A") if "A" <= character <= "Z" else ord("a")
    position = ord(character) - base if character.isalpha() else 0
    return chr(base + (position + shift) % 26)


Kind = Literal["people", "citations", "contacts"]

REFERENCE_TYPES: dict[str, tuple[ReferenceType, ...]] = {
    "people": PEOPLE_TYPES,
    "citations": CITATION_TYPES,
    "contacts": CONTACT_TYPES,
}
FIELDS = {"people": PEOPLE_FIELDS, "citations": CITATION_FIELDS, "contacts": CONTACT_FIELDS}
MAKERS = {"people": make_people, "citations": make_citations, "contacts": make_contacts}
MEAN_CLUSTER_SIZE = {"people": 1.25, "citations": 5.0, "contacts": 1.25}
MOVED_SHARE = 0.08  # records of people written at another home than their present one


def make_records(
    n: int,
    kind: Kind = "people",
    *,
    mean_cluster_size: float | None = None,
    n_types: int = 6,
    missing: float = 0.08,
    typos: float = 0.03,
    zipf: float = 0.75,
    seed: int = 0,
) -> Labelled:
    """Make records of people, citations or contacts with known clusters, shuffled.

    Parameters
    ----------
    n : int
        How many records.
    kind : "people", "citations" or "contacts"
        What the records are of.
    mean_cluster_size : float, optional
        Records an entity; sizes are geometric. The default is 5 for citations and 1.25 for the others.
    n_types : int
        How many reference types are in use, the first ones of `REFERENCE_TYPES[kind]`; each record draws its own,
        with probability proportional to the type's share.
    missing : float
        Chance that an optional cell is None; a type multiplies it by its `missing_factor`.
    typos : float
        Chance that a cell is mistyped (insert, delete, substitute, transpose; each typo is followed by one more with
        chance 0.25); a type multiplies it by its `typo_factor`.
    zipf : float
        Exponent of the frequencies of names, cities and venues (0: all equally frequent).
    seed : int
        The same arguments give the same records.

    Returns
    -------
    Labelled
        The records, the entity of each as its cluster, their ids, and their hidden reference types: codes into
        `REFERENCE_TYPES[kind]`.

    Example
    -------
    >>> made = make_records(5, kind="people", seed=0)
    >>> made.data.names[:3]
    ('first_name', 'surname', 'birth_date')

    Notes
    -----
    Noise has its own random streams, so with the same `seed` other
    noise levels change how the same entities are written, not which they are.
    """
    _check_counts(n, kind, n_types, seed)
    _check_levels(mean_cluster_size, missing, typos, zipf)
    mean = MEAN_CLUSTER_SIZE[kind] if mean_cluster_size is None else mean_cluster_size
    for_sizes, for_entities, for_types, for_noise = np.random.default_rng(seed).spawn(4)
    entities = _draw_entities(n, mean, for_sizes)
    forms = MAKERS[kind](int(entities.max()) + 1, zipf, for_entities)
    types = _reference_types(n, REFERENCE_TYPES[kind][:n_types], for_types)
    columns = _write_columns(forms, kind, entities, types, missing, typos, for_noise)
    return Labelled(
        Records(columns, source=f"made-up {kind}"),
        clusters=np.array([f"e{entity}" for entity in entities.tolist()]),
        ids=np.array([f"r{row}" for row in range(n)]),
        types=types,
    )


def _draw_entities(n: int, mean_cluster_size: float, rng: np.random.Generator) -> Codes:
    """The entity of each record: geometric sizes until n records are reached, the last one cut short."""
    sizes = np.minimum(rng.geometric(1 / mean_cluster_size, size=n), n)
    entities = np.searchsorted(np.cumsum(sizes), np.arange(n), side="right")
    rng.shuffle(entities)
    return entities


def _reference_types(n: int, profiles: tuple[ReferenceType, ...], rng: np.random.Generator) -> Codes:
    shares = np.array([profile.share for profile in profiles])
    return rng.choice(len(profiles), size=n, p=shares / shares.sum())


def _write_columns(
    forms: Forms, kind: str, entities: Codes, types: Codes, missing: float, typos: float, rng: np.random.Generator
) -> dict[str, Column]:
    profiles = REFERENCE_TYPES[kind]
    moves, mistakes, gaps = rng.spawn(3)
    # Who has moved is written at the home of somebody else: tenants follow one another.
    elsewhere = moves.integers(int(entities.max()) + 1, size=len(entities))
    homes = np.where(moves.random(len(entities)) < MOVED_SHARE, elsewhere, entities)
    typo_chance = np.array([profile.typo_factor for profile in profiles])[types] * typos
    missing_chance = np.array([profile.missing_factor for profile in profiles])[types] * missing
    columns = {}
    for field in FIELDS[kind]:
        rows = homes if field in HOME_FIELDS else entities
        cells = write_cells(forms[field], [profile.form(field) for profile in profiles], types, rows)
        add_typos(cells, typo_chance, mistakes)
        if field not in REQUIRED_FIELDS:
            cells[gaps.random(len(cells)) < missing_chance] = None
        columns[field] = cells
    return columns


def _check_counts(n: int, kind: str, n_types: int, seed: int) -> None:
    if kind not in REFERENCE_TYPES:
        raise InputError(f"make_records: kind is {kind!r}; use one of {', '.join(MAKERS)}")
    most = len(REFERENCE_TYPES[kind])
    for name, count, least, largest in (
        ("n", n, 1, math.inf),
        ("n_types", n_types, 1, most),
        ("seed", seed, 0, math.inf),
    ):
        if not isinstance(count, int | np.integer) or not least <= count <= largest:
            limits = f"of {least} or more" if largest == math.inf else f"from {least} to {largest}"
            raise InputError(f"make_records: {name} is {count!r}; use a whole number {limits}")


def _check_levels(mean_cluster_size: float | None, missing: float, typos: float, zipf: float) -> None:
    if mean_cluster_size is not None and not 1 <= mean_cluster_size < math.inf:
        raise InputError(f"make_records: mean_cluster_size is {mean_cluster_size}; use a number of 1 or more")
    for name, chance in {"missing": missing, "typos": typos}.items():
        if not 0 <= chance <= 1:
            raise InputError(f"make_records: {name} is {chance}; it is a probability, use 0 to 1")
    if not 0 <= zipf < math.inf:
        raise InputError(f"make_records: zipf is {zipf}; use an exponent of 0 or more")


Table = dict[str, Column]
TUTORIAL_TABLES = ("people", "citations", "crm")
SEED = 1
N_RECORDS, FEWEST_RECORDS = 300, 20
# One record in so many comes later.
NEW_PART = 5
# The share of entities that somebody has grouped already.
KNOWN_SHARE = 0.5

# A dozen to look at: (entity, id, cells). Namesakes, a couple, a mother and daughter, one who moved; a sequel.
DOZEN_OF_PEOPLE = (
    ("first_name", "surname", "birth_date", "street", "city", "postcode", "phone"),
    ("A", "p01", "Rebecca", "Taylor", "1984-03-12", "14 Mill Road", "Ashford", "25310", "0350-114-662"),
    ("A", "p02", "R.", "Taylor", "1984-03-12", "14 Mill Rd", "Ashford", "25310", None),
    ("A", "p03", "Rebecca", "Tailor", "1984-03-21", "14 Mill Road", "Ashford", "25310", "0350-114-662"),
    ("B", "p04", "Rebecca", "Taylor", "1951-11-02", "8 Harbour Street", "Greyport", "48112", "0712-330-915"),
    ("C", "p05", "Thomas", "Taylor", "1981-07-30", "14 Mill Road", "Ashford", "25310", "0350-114-662"),
    ("C", "p06", "T.", "Taylor", None, "14 Mill Road", "Ashford", "25310", None),
    ("D", "p07", "Omar", "Hassan", "1990-01-05", "3 Cedar Lane", "Oakfield", "61100", "0441-732-686"),
    ("D", "p08", "Omar", "Hasan", "1990-05-01", None, "Oakfield", "61100", "0441-732-686"),
    ("D", "p09", "Hassan", "Omar", "1990-01-05", "3 Cedar Ln", "Oakf.", "61100", None),
    ("E", "p10", "Lena", "Fischer", "1975-09-14", "22 Castle Court", "Northbridge", "10992", "0830-645-599"),
    ("E", "p11", "L.", "Fischer", None, "59 Rose Avenue", "Silverton", "31001", "0830-645-599"),
    ("F", "p12", "Lea", "Fischer", "2003-02-27", "22 Castle Court", "Northbridge", "10992", None),
)
SEARCH, AGENTS = "Probabilistic Search in Hierarchical Agents", "Workshop on Artificial Knowledge"
SEQUEL, RECORDS = "Probabilistic Search in Relational Agents", "Interactive Evaluation with Noisy Records"
JOURNAL = "Journal of Computational Data"
DOZEN_OF_CITATIONS = (
    ("author", "title", "venue", "year", "pages"),
    ("A", "c01", "Ida Varoard and Clara Miller", SEARCH, AGENTS, "2009", "348-362"),
    ("A", "c02", "I. Varoard, C. Miller", SEARCH, "Wkshp. Arti. Know.", "2009", "pp. 348"),
    ("A", "c03", "Varoard, Ida and Miller, Clara", "Probablistic Search in Hierarchical Agents", AGENTS, "2009", None),
    ("A", "c04", None, SEARCH, None, "2009", "348-362"),
    ("B", "c05", "Ida Varoard and Clara Miller", SEQUEL, "Journal of Artificial Knowledge", "2010", "12-40"),
    ("B", "c06", "I. Varoard, C. Miller", SEQUEL, "J. Arti. Know.", "2010", "pp. 12"),
    ("C", "c07", "Mark Pemerby", RECORDS, JOURNAL, "2017", "185-202"),
    ("C", "c08", "M. Pemerby", RECORDS, "J. Comp. Data.", None, "pp. 185"),
    ("D", "c09", "Mark Pemerby", f"{RECORDS}: A Second Look", JOURNAL, "2019", "7-29"),
    ("E", "c10", "Hugo Larsen", "Relational Indexing from Dynamic Journals", JOURNAL, "1994", "890-907"),
    ("E", "c11", "H. Larsen", "Relational Indexing from Dynamic Journals", None, "1994", None),
    ("F", "c12", "Helen Larsen", "Lazy Indexing of Dynamic Journals", JOURNAL, "1996", "12-40"),
)
DOZENS = {"people": DOZEN_OF_PEOPLE, "citations": DOZEN_OF_CITATIONS}


def make_dozen(name: str) -> Labelled:
    """Twelve records of people or of citations to look at, with their clusters.

    Parameters
    ----------
    name : "people" or "citations"
        What the records are of.

    Returns
    -------
    Labelled

    Example
    -------
    >>> dozen = make_dozen("people")
    >>> len(dozen), dozen.n_clusters
    (12, 6)
    """
    fields, *rows = DOZENS[name]
    clusters, ids, *columns = (np.array(cells, dtype=object) for cells in zip(*rows, strict=True))
    cells = {"id": ids, **dict(zip(fields, columns, strict=True))}
    return Labelled(Records(cells, source=f"a dozen {name}"), clusters, ids)


def make_tables(name: str, n_records: int | None = None) -> dict[str, Table]:
    """The files of a tutorial's table, by their names.

    Parameters
    ----------
    name : "people", "citations" or "crm"
        The first two have the files NAME.csv, in which the entity of half of the things is filled in, new.csv with
        records that came later, gold.csv and gold_all.csv with the truth. The third is one customer list in two
        systems, shop.csv and support.csv, with gold.csv.
    n_records : int, optional
        How many records; 300 if it is not given. Those of new.csv come on top, a fifth as many.

    Returns
    -------
    dict of str to columns

    Example
    -------
    >>> list(make_tables("people"))
    ['people', 'new', 'gold', 'gold_all']
    """
    if name not in TUTORIAL_TABLES:
        raise InputError(f"there is no table {name!r} to make; there are: {', '.join(TUTORIAL_TABLES)}")
    n = N_RECORDS if n_records is None else n_records
    if n < FEWEST_RECORDS:
        raise InputError(f"a tutorial needs at least {FEWEST_RECORDS} records, not {n}")
    if name == "crm":
        return _make_crm(n)
    return _make_labelled("people" if name == "people" else "citations", n)


def _make_labelled(kind: Kind, n: int) -> dict[str, Table]:
    size = 2.0 if kind == "people" else 4.0
    made = make_records(n + n // NEW_PART, kind=kind, mean_cluster_size=size, seed=SEED)
    old = np.arange(len(made)) < n
    entities = np.unique(made.clusters)
    known = np.random.default_rng(SEED).permutation(entities)[: int(KNOWN_SHARE * len(entities))]
    labels = made.clusters.astype(object)
    labels[~np.isin(made.clusters, known)] = None
    return {
        kind: _with_ids(made, old, {"entity": labels}),
        "new": _with_ids(made, ~old, {}),
        "gold": _gold(made, old),
        "gold_all": _gold(made, np.ones(len(made), dtype=bool)),
    }


def _make_crm(n: int) -> dict[str, Table]:
    made = make_records(n, kind="contacts", mean_cluster_size=1.6, seed=SEED)
    in_shop = np.random.default_rng(SEED).random(len(made)) < 0.5
    every = np.ones(len(made), dtype=bool)
    return {"shop": _with_ids(made, in_shop, {}), "support": _with_ids(made, ~in_shop, {}), "gold": _gold(made, every)}


def _with_ids(made: Labelled, rows: NDArray[np.bool_], more: Table) -> Table:
    assert isinstance(made.data, Records)
    columns = {"id": made.ids.astype(object), **more, **made.data.columns}
    return {name: cells[rows] for name, cells in columns.items()}


def _gold(made: Labelled, rows: NDArray[np.bool_]) -> Table:
    return {"id": made.ids[rows].astype(object), "entity": made.clusters[rows].astype(object)}
