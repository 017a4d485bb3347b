"""Spec: which columns say what, and which comparisons are made between records."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from scdp.compare import Comparison
from scdp.errors import InputError
from scdp.table import LONGEST_ID, Records, unique_ids

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
    >>> from scdp.table import records_from
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


@dataclass(frozen=True, init=False)
class Spec:
    """Which columns say what, and how two records are compared.

    Parameters
    ----------
    entity : str, optional
        The column of known clusters.
    fields : comparisons, optional
        What is compared (`scdp.compare`); without any, `fit` proposes them from the columns.
    id, group : str, optional
        The columns of the names of records, and of groups: records of two groups are never together.
    golden : pairs of str, optional
        Rules of golden records: a column and its rule.
    source : str, optional
        The column that says where a record comes from.
    at_most_one : sequence of str, optional
        Sources of which no two records are the same thing.
    link_only : bool
        Whether no two records of any one source are compared.
    further : comparisons, optional
        Beside proposed ones, what labelled clusters may find to help; None where comparisons were chosen by hand, which
        all stay.

    Example
    -------
    >>> from scdp import compare
    >>> spec = Spec("person", [compare.person_name("name"), compare.exact("city")], id="nr")
    >>> spec.names
    ('person_name(name)', 'exact(city)')
    """

    entity: str | None = None
    fields: tuple[Comparison, ...] = ()
    id: str | None = None
    group: str | None = None
    golden: tuple[tuple[str, str], ...] = ()
    source: str | None = None
    at_most_one: tuple[str, ...] = ()
    link_only: bool = False
    # Of a proposal alone, which no file keeps.
    further: tuple[Comparison, ...] | None = field(default=None, compare=False, repr=False)

    def __init__(
        self,
        entity: str | None = None,
        fields: Iterable[Comparison] = (),
        id: str | None = None,
        group: str | None = None,
        golden: Iterable[tuple[str, str]] = (),
        source: str | None = None,
        at_most_one: Iterable[str] = (),
        link_only: bool = False,
        further: Iterable[Comparison] | None = None,
    ) -> None:
        given: dict[str, Any] = {"entity": entity, "fields": tuple(fields), "id": id, "group": group}
        given |= {"golden": tuple(golden), "source": source}
        given |= {"at_most_one": tuple(at_most_one), "link_only": link_only}
        given |= {"further": None if further is None else tuple(further)}
        for name, value in given.items():
            object.__setattr__(self, name, value)
        self._check_fields()
        if source is None and (self.at_most_one or link_only):
            raise InputError("spec: at_most_one and link_only are about sources; name their column by source")

    def _check_fields(self) -> None:
        seen: set[str] = set()
        for position, comparison in enumerate(self.fields):
            if not isinstance(comparison, Comparison):
                raise InputError(f"spec: field {position + 1} is {comparison!r}, not a comparison (compare.edit, ...)")
            if comparison.name in seen:
                raise InputError(f"spec: two fields are named {comparison.name!r}; give one of them a name=")
            seen.add(comparison.name)

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the fields, in order: the features of the distances."""
        return tuple(comparison.name for comparison in self.fields)

    @property
    def needs_fit(self) -> bool:
        """Whether fields are still to be proposed, or a scale to be learned."""
        return not self.fields or any(comparison.needs_fit for comparison in self.fields)

    def fit(self, records: Records) -> Spec:
        """This spec with what training records teach: fields if it has none, and the scales of numbers.

        Parameters
        ----------
        records : Records
            Those whose column of ids holds the same one twice are refused.

        Returns
        -------
        Spec

        Example
        -------
        >>> from scdp.datasets import make_records
        >>> Spec(fields=[compare.absolute("year")]).fit(make_records(50, kind="citations").data).needs_fit
        False
        """
        if self.id is not None and self.id in records.columns:
            unique_ids(records, self.id)
        from scdp.table.propose import propose

        found = self if self.fields else propose(records, self.entity, self.id, self.group, self.source)
        fields = tuple(comparison.fit(records) for comparison in found.fields)
        further = None if found.further is None else tuple(comparison.fit(records) for comparison in found.further)
        return replace(self, fields=fields, further=further)

    def to_toml(self) -> str:
        """The text of a file that `from_toml` reads back to an equal spec; cleaning is always written out.

        Returns
        -------
        str

        Example
        -------
        >>> Spec("person").to_toml().splitlines()[0]
        'entity = "person"'
        """
        from scdp.table.spec_files import write_spec

        return write_spec(self)

    @classmethod
    def from_toml(cls, path: str | Path) -> Spec:
        """Read a spec; a mistake in the file is one sentence with the file and the line.

        Parameters
        ----------
        path : path
            A TOML file, or settings of Splink as a JSON file.

        Returns
        -------
        Spec

        Example
        -------
        >>> from pathlib import Path
        >>> from tempfile import TemporaryDirectory
        >>> with TemporaryDirectory() as folder:
        ...     _ = Path(folder, "spec.toml").write_text(Spec("person").to_toml())
        ...     Spec.from_toml(Path(folder, "spec.toml")) == Spec("person")
        True
        """
        from scdp.table.spec_files import read_spec

        return read_spec(path)
