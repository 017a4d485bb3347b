"""Records into labelled items: the steps that all loaders of tables share."""

from __future__ import annotations

from os import PathLike
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from scdp.datasets.task import Labelled, Task
from scdp.errors import InputError
from scdp.paper.datasets.files import require
from scdp.paper.datasets.rda import Vector, columns_of, read_rda
from scdp.table.records import Records, complete_column, read_records, records_from, unique_ids


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
