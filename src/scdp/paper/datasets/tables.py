"""Records into labelled items: the steps that all loaders of tables share."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scdp.datasets.task import Labelled
from scdp.errors import InputError
from scdp.table.records import Records, complete_column, records_from, unique_ids


def labelled(records: Records, entity: str, id: str | None = None, group: str | None = None) -> Labelled:
    """Split off the columns of the gold cluster and the identifier; a group column stays in the data."""
    data = without(records, *([entity] if id is None else [entity, id]))
    ids = np.arange(len(records)) if id is None else _texts(unique_ids(records, id))
    groups = None if group is None else _texts(complete_column(records, group))
    return Labelled(data, _texts(complete_column(records, entity)), ids, groups)


def without(records: Records, *names: str) -> Records:
    """The same records, some columns fewer."""
    columns = {name: records[name] for name in records.names if name not in names}
    return Records(columns, records.source, records.row_numbers)


def stripped(records: Records) -> Records:
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
