"""Tables for tutorials: a name enters; the columns of a few files leave, the same on every machine, made offline."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from scdp.datasets.generate import Kind, Labelled, make_records
from scdp.errors import InputError
from scdp.table.records import Column, Records

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

    Examples
    --------
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

    Examples
    --------
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
