"""Roles of columns: which column names the records, and which says what they are known to be, by name and content."""

from __future__ import annotations

from scdp.table.records import LONGEST_ID, Records

ID_COLUMNS = ("id", "record_id", "unique_id", "rec_id")
CLUSTER_COLUMNS = ("cluster", "cluster_id", "entity")
ENTITY_COLUMNS = CLUSTER_COLUMNS[::-1]
# Words that the name of a column of ids ends in, in other tables.
ID_ENDINGS = ("id", "key", "number", "nr", "no")


def find_id_column(records: Records, others: tuple[str | None, ...] = ()) -> str | None:
    """The column that names the records: one of the usual names, or the first that sounds like ids and is unique.

    Parameters
    ----------
    records : Records
        The table.
    others : tuple of str
        Columns that have another role.

    Returns
    -------
    str or None

    Examples
    --------
    >>> from scdp.table.records import records_from
    >>> find_id_column(records_from({"name": ["Ann", "Bob"], "Customer ID": ["7", "8"]}))
    'Customer ID'
    """
    free = [name for name in records.names if name not in others]
    usual = next((name for name in ID_COLUMNS if name in free), None)
    return usual or next((name for name in free if _sounds_like_ids(name) and names_all(records, name)), None)


def find_entity_column(records: Records) -> str | None:
    """The column of known clusters, by its name."""
    return next((name for name in ENTITY_COLUMNS if name in records.names), None)


def names_all(records: Records, column: str) -> bool:
    """Whether every record has a cell of its own in this column."""
    cells = records[column].tolist()
    return None not in cells and len(set(cells)) == len(cells) and max(map(len, cells)) <= LONGEST_ID


def find_shared_ids(first: Records, second: Records) -> tuple[str, str] | None:
    """The columns of two tables that hold the same ids, whatever their names."""
    usual = next((name for name in ID_COLUMNS if name in first.names and name in second.names), None)
    if usual is not None:
        return usual, usual
    theirs = {name: set(second[name].tolist()) for name in second.names if names_all(second, name)}
    for name in first.names:
        if names_all(first, name):
            cells = set(first[name].tolist())
            same = next((other for other, found in theirs.items() if found == cells), None)
            if same is not None:
                return name, same
    return None


def _sounds_like_ids(name: str) -> bool:
    words = "".join(character if character.isalnum() else " " for character in name).lower().split()
    return bool(words) and (words[-1] in ID_ENDINGS or name.endswith(("ID", "Id")))
