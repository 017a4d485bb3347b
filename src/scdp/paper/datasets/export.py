"""Data sets as tables for the command line: a name enters; columns with id and entity leave, by part."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path

import numpy as np

from scdp.datasets.task import Labelled, Task
from scdp.errors import InputError
from scdp.table.records import Column, Records

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
