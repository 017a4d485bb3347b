"""Record linkage benchmarks with known duplicates, and any table of your own with a column of entities."""

from __future__ import annotations

from os import PathLike
from pathlib import Path
from typing import Literal

import numpy as np

from scdp.datasets.task import Labelled
from scdp.errors import InputError
from scdp.paper.datasets.locate import require
from scdp.paper.datasets.rda import Vector, columns_of, read_rda
from scdp.paper.datasets.tables import labelled, stripped
from scdp.table.records import read_records, records_from

_HISTORICAL = {"5k": "historical_5k.csv", "50k": "historical_figures_with_errors_50k.parquet"}


def load_records(
    path: str | PathLike[str], entity: str, id: str | None = None, group: str | None = None
) -> Labelled:
    """Read CSV, Parquet or JSON lines; `entity` names the column of gold clusters, `id` that of ids."""
    return labelled(read_records(Path(path)), entity, id, group)


def load_restaurant() -> Labelled:
    """864 restaurants of two guides, 752 places."""
    path = require("restaurant", "raw/restaurant.csv")
    found = labelled(stripped(read_records(path)), entity="class", id="id")
    # The file puts this column in single quotes, though all others are in double ones.
    clusters = np.array([label.strip("'") for label in found.clusters])
    return Labelled(found.data, clusters, found.ids)


def load_febrl3() -> Labelled:
    """5000 synthetic Australian persons, 2000 originals with up to five corrupted copies."""
    path = require("febrl3", "raw/dataset3.csv")
    found = labelled(stripped(read_records(path)), entity="rec_id", id="rec_id")
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
