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


def richer_references_spec(entity: str = "cluster_id", id: str = "record_id") -> Spec:
    """Citations as `references_spec` has them, by rare words, lists of people and near years."""
    return Spec(
        entity,
        [
            compare.soft_tokens("title"),
            compare.qgram_tfidf("title"),
            compare.people_overlap("author"),
            compare.person_name("author", of="first_of_list"),
            compare.year("date"),
            compare.soft_tokens("venue"),
            compare.edit("venue"),
        ],
        id=id,
    )


def richer_identity_spec(entity: str = "cluster_id", id: str = "record_id") -> Spec:
    """Authors' names as `identity_spec` has them, with compatible initials, rare coauthors and words of titles."""
    return Spec(
        entity,
        [
            compare.person_name("first"),
            compare.edit("first"),
            compare.person_name(["first", "last"]),
            compare.people_overlap("coauthors", separator=";"),
            compare.soft_tokens("title"),
            compare.exact("venue"),
            compare.soft_tokens("booktitle"),
            compare.year("year"),
        ],
        id=id,
    )


def richer_coreference_spec(
    entity: str = "cluster_id", id: str = "record_id", group: str | None = "doc"
) -> Spec:
    """Mentions as `coreference_spec` has them, with parts of names, acronyms, the whole mention and its sort."""
    return Spec(
        entity,
        [
            compare.proper_noun("name"),
            compare.company("name"),
            compare.proper_noun("span"),
            compare.jaro_winkler("head"),
            compare.category("etype"),
        ],
        id=id,
        group=group,
    )
