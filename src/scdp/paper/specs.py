"""The paper's own features for its three text tasks (Sections 6.3 to 6.5), as specs."""

from __future__ import annotations

from scdp import compare
from scdp.table.spec import Spec


def references_spec(entity: str = "cluster_id", id: str = "record_id") -> Spec:
    """Citations with columns author, title, date, venue (Cora)."""
    return Spec(
        entity,
        [
            compare.edit("title"),
            compare.edit("author", of="first_of_list"),
            compare.edit("author"),
            compare.absolute("date", of="year"),
            compare.count_difference("date", of="year"),
            compare.edit("venue"),
            compare.count_difference("venue"),
            compare.shared_coauthors("author"),
        ],
        id=id,
    )


def identity_spec(entity: str = "cluster_id", id: str = "record_id") -> Spec:
    """Authors' names with columns first, last, coauthors (separated by ";"), venue, year."""
    return Spec(
        entity,
        [
            compare.edit("first"),
            compare.edit("last"),
            compare.edit(["first", "last"]),
            compare.absolute("year"),
            compare.count_difference("year"),
            compare.edit("venue"),
            compare.count_difference("venue"),
            compare.shared_coauthors("coauthors", separator=";"),
        ],
        id=id,
    )


def coreference_spec(entity: str = "cluster_id", id: str = "record_id", group: str | None = "doc") -> Spec:
    """Mentions with the column name, clustered within documents (`group`)."""
    return Spec(
        entity,
        [
            compare.edit("name"),
            compare.edit_head("name"),
            compare.longest_common_substring("name"),
            compare.longest_common_subsequence("name"),
            compare.edit_abbreviation("name"),
        ],
        id=id,
        group=group,
    )
