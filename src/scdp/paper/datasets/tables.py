"""Cora references of Kearns, Schapire and Freund: `coraATDV.txt` enters, records or a task leave."""

from __future__ import annotations

import re
from importlib import import_module
from os import PathLike
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from scdp.datasets.generate import Labelled, Task
from scdp.errors import InputError
from scdp.paper.datasets.files import NAMES, Source, find, find_source, require
from scdp.paper.datasets.rda import Vector, columns_of, read_rda
from scdp.table.readers import read_records
from scdp.table.records import Column, Records, complete_column, records_from, unique_ids

FIELDS = ("author", "title", "date", "venue")
Author = Literal["Freund", "Kearns", "Schapire"]
_AUTHORS = ("Freund", "Kearns", "Schapire")
_TYPO, _MEANT = "druker1992", "drucker1992"
# Every field was written as one blank, words, one blank (or nothing), and the four were joined by a blank.
_FIELD = r"(?: (\S+(?: \S+)*) )?"
_TEXT = re.compile(" ".join([_FIELD] * 4))


def load_cora(merge_typo: bool = False) -> Labelled:
    """All 1916 references: 116 labels as in the file, 115 with `druker1992` merged into `drucker1992`."""
    path = require("cora-ksf-1916", "raw/coraATDV.txt")
    lines = read_text(path).rstrip("\n").split("\n")
    rows = [_parse(line, f"{path}, line {number}") for number, line in enumerate(lines, 1)]
    labels = [_MEANT if merge_typo and label == _TYPO else label for label, _ in rows]
    fields = zip(*(cells for _, cells in rows), strict=True)
    data = records_from(dict(zip(FIELDS, fields, strict=True)), str(path))
    return Labelled(data, np.array(labels), np.arange(len(rows)))


def _parse(line: str, place: str) -> tuple[str, tuple[str | None, ...]]:
    parts = line.split("\t")
    cells = _TEXT.fullmatch(parts[2]) if len(parts) == 3 else None
    if cells is None:
        raise InputError(
            f"{place}: expected relation, label and the four spaced fields, with tabs between them"
        )
    return parts[1], cells.groups()


def load_references(author: Author = "Freund", merge_typo: bool = True) -> Task:
    """Test on the papers of one author, train on the rest.

    A cluster is a paper of his when at least half of its records name him in the author or title text.
    """
    if author not in _AUTHORS:
        raise InputError(f"author {author!r} is not one of {', '.join(_AUTHORS)}")
    cora = load_cora(merge_typo)
    test = written_by(cora, author)
    note = f"Cora references (Kearns, Schapire, Freund), tested on the papers with {author} as an author"
    return Task(f"references-{author.lower()}", cora.take(~test), cora.take(test), note)


def written_by(cora: Labelled, author: str) -> NDArray[np.bool_]:
    """Which records belong to a cluster that names the author in at least half of its records."""
    assert isinstance(cora.data, Records)
    texts = zip(cora.data["author"], cora.data["title"], strict=True)
    named = np.array([author.lower() in f"{who} {what}".lower() for who, what in texts])
    _, cluster = np.unique(cora.clusters, return_inverse=True)
    share = np.bincount(cluster, weights=named) / np.bincount(cluster)
    return np.asarray(share[cluster] >= 0.5)


def label_records(records: Records, entity: str, id: str | None = None, group: str | None = None) -> Labelled:
    """Split off the columns of the gold cluster and the identifier; a group column stays in the data."""
    data = without(records, *([entity] if id is None else [entity, id]))
    ids = np.arange(len(records)) if id is None else _texts(unique_ids(records, id))
    groups = None if group is None else _texts(complete_column(records, group))
    return Labelled(data, _texts(complete_column(records, entity)), ids, groups)


def without(records: Records, *names: str) -> Records:
    """The same records, some columns fewer."""
    columns = {name: records[name] for name in records.names if name not in names}
    return Records(columns, records.source, records.row_numbers)


def strip_cells(records: Records) -> Records:
    """The same records without blanks round their cells, for files that write them after every comma."""
    columns = {name: [cell and cell.strip() for cell in records[name]] for name in records.names}
    return Records(records_from(columns).columns, records.source, records.row_numbers)


def read_text(path: Path) -> str:
    """The text of a UTF-8 file of a data set."""
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{path}: cannot be read ({error}); get the file again") from error


def _texts(column: NDArray[np.object_]) -> NDArray[Any]:
    return np.array(column.tolist(), dtype=np.str_)


_HISTORICAL = {"5k": "historical_5k.csv", "50k": "historical_figures_with_errors_50k.parquet"}


def load_records(
    path: str | PathLike[str], entity: str, id: str | None = None, group: str | None = None
) -> Labelled:
    """Read CSV, Parquet or JSON lines; `entity` names the column of gold clusters, `id` that of ids."""
    return label_records(read_records(Path(path)), entity, id, group)


def load_restaurant() -> Labelled:
    """864 restaurants of two guides, 752 places."""
    path = require("restaurant", "raw/restaurant.csv")
    found = label_records(strip_cells(read_records(path)), entity="class", id="id")
    # The file puts this column in single quotes, though all others are in double ones.
    clusters = np.array([label.strip("'") for label in found.clusters])
    return Labelled(found.data, clusters, found.ids)


def load_febrl3() -> Labelled:
    """5000 synthetic Australian persons, 2000 originals with up to five corrupted copies."""
    path = require("febrl3", "raw/dataset3.csv")
    found = label_records(strip_cells(read_records(path)), entity="rec_id", id="rec_id")
    clusters = np.array([_number_of(str(id), str(path)) for id in found.ids])
    return Labelled(found.data, clusters, found.ids)


def _number_of(id: str, source: str) -> str:
    parts = id.split("-")
    if len(parts) < 3 or parts[0] != "rec":
        raise InputError(
            f"{source}: record id {id!r} is not of the form rec-NUMBER-org or rec-NUMBER-dup-COPY"
        )
    return parts[1]


def load_rldata500() -> Labelled:
    """500 synthetic German persons, 50 of them twice."""
    path = require("rldata500", "raw/RLdata500.rda")
    objects = read_rda(path)
    frame, identity = objects.get("RLdata500"), objects.get("identity.RLdata500")
    if not isinstance(frame, Vector) or not isinstance(identity, Vector):
        raise InputError(f"{path}: expected the objects RLdata500 and identity.RLdata500")
    data = records_from(columns_of(frame, str(path)), str(path))
    numbers = [value for value in identity.values if isinstance(value, float) and value.is_integer()]
    clusters = [number for number in numbers if abs(number) < 2**31]
    if len(clusters) != len(data):
        raise InputError(
            f"{path}: {len(data)} records but {len(clusters)} with an identity; get the file again"
        )
    return Labelled(data, np.array(clusters, dtype=np.int64), np.arange(1, len(data) + 1))


def load_historical(sample: Literal["5k", "50k"] = "5k") -> Labelled:
    """Historical figures with synthetic errors: 5005 records of 479 persons, or all 50578 of 5156."""
    if sample not in _HISTORICAL:
        raise InputError(f"sample {sample!r} is not one of {', '.join(_HISTORICAL)}")
    return load_records(require("historical-50k", _HISTORICAL[sample]), entity="cluster", id="unique_id")


def load_fake_1000() -> Labelled:
    """1000 made-up persons, 251 entities."""
    return load_records(require("splink-fake-1000", "fake_1000.csv"), entity="cluster", id="unique_id")


def load_identity() -> Task:
    """A sample of the size of the paper's: 1004 mentions of 232 persons to train, 381 of 96 to test."""
    records = read_records(require("acl-authors", "acl_authors_1400.csv"))
    test = np.array(records["part"] == "test")
    whole = label_records(without(records, "part"), entity="cluster_id", id="record_id")
    note = "Author mentions of the ACL Anthology; stands in for the researchers of the paper's identity task"
    return Task("identity", whole.take(~test), whole.take(test), note)


def load_identity_full() -> Labelled:
    """Every mention whose name could be another person's: 18011 mentions of 4553 persons."""
    records = read_records(require("acl-authors", "acl_authors_full.csv.gz"))
    return label_records(records, entity="cluster_id", id="record_id")


# What can be exported, and the loader of each. Images are no records.
LOADERS = {
    "identity": "load_identity",
    "references": "load_references",
    "coreference": "load_coreference",
    "cora": "load_cora",
    "restaurant": "load_restaurant",
    "febrl3": "load_febrl3",
    "rldata500": "load_rldata500",
    "historical": "load_historical",
    "fake-1000": "load_fake_1000",
}
OWN = "ace"


def offered_sets() -> tuple[str, ...]:
    """The sets that can be exported here: their files are there, or have a public copy."""
    there = ", ".join(source.loaders for source in map(find_source, NAMES) if _can_be_had(source)).split(", ")
    return tuple(name for name, loader in LOADERS.items() if loader in there)


def _can_be_had(source: Source) -> bool:
    return all(file.url is not None or find(source, file) is not None for file in source.files)


def exported_parts(name: str, folder: Path | None = None) -> dict[str, dict[str, Column]]:
    """By file name, the columns of each part: a task has train and test, any other set is one table.

    `folder` is that of your own copy of ACE 2004, which is not free.
    """
    if (name == OWN) != (folder is not None):
        raise InputError(f"{OWN!r} is read from a folder of your own, and no other set: name it with --from")
    if folder is not None:
        from scdp.paper.datasets.ace import load_ace

        return {"records": _columns(load_ace(folder))}
    if name not in LOADERS:
        raise InputError(f"there is no set of records {name!r} to export; there are: {', '.join(LOADERS)}")
    loaded = getattr(import_module("scdp.paper.datasets"), LOADERS[name])()
    if isinstance(loaded, Task):
        return {"train": _columns(loaded.train), "test": _columns(loaded.test)}
    return {"records": _columns(loaded)}


def _columns(part: Labelled) -> dict[str, Column]:
    assert isinstance(part.data, Records)
    first = {"id": part.ids, "entity": part.clusters}
    columns = {key: np.array([str(value) for value in values], dtype=object) for key, values in first.items()}
    # A column of that name would be taken for the id or the answer.
    for column in part.data.names:
        columns[f"{column}_given" if column in first else column] = part.data[column]
    return columns
