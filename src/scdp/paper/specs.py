"""The paper's own features for its three text tasks (Sections 6.3 to 6.5), as specs."""

from __future__ import annotations

from scdp import compare
from scdp.table.spec import Spec

# Columns of all three tasks as the loaders give them.
ENTITY, ID, DOCUMENT = "cluster_id", "record_id", "doc"


def references_spec() -> Spec:
    """Citations with columns author, title, date, venue (Cora)."""
    fields = [
        compare.edit("title"),
        compare.edit("author", of="first_of_list"),
        compare.edit("author"),
        compare.absolute("date", of="year"),
        compare.count_difference("date", of="year"),
        compare.edit("venue"),
        compare.count_difference("venue"),
        compare.shared_coauthors("author"),
    ]
    return Spec(ENTITY, fields, id=ID)


def identity_spec() -> Spec:
    """Authors' names with columns first, last, coauthors (separated by ";"), venue, year."""
    fields = [
        compare.edit("first"),
        compare.edit("last"),
        compare.edit(["first", "last"]),
        compare.absolute("year"),
        compare.count_difference("year"),
        compare.edit("venue"),
        compare.count_difference("venue"),
        compare.shared_coauthors("coauthors", separator=";"),
    ]
    return Spec(ENTITY, fields, id=ID)


def coreference_spec() -> Spec:
    """Mentions with the column name, clustered within documents."""
    fields = [
        compare.edit("name"),
        compare.edit_head("name"),
        compare.longest_common_substring("name"),
        compare.longest_common_subsequence("name"),
        compare.edit_abbreviation("name"),
    ]
    return Spec(ENTITY, fields, id=ID, group=DOCUMENT)


def richer_references_spec() -> Spec:
    """Citations as `references_spec` has them, by rare words, lists of people and near years."""
    fields = [
        compare.soft_tokens("title"),
        compare.qgram_tfidf("title"),
        compare.people_overlap("author"),
        compare.person_name("author", of="first_of_list"),
        compare.year("date"),
        compare.soft_tokens("venue"),
        compare.edit("venue"),
    ]
    return Spec(ENTITY, fields, id=ID)


def richer_identity_spec() -> Spec:
    """Authors' names as `identity_spec` has them, with compatible initials, rare coauthors and words of titles."""
    fields = [
        compare.person_name("first"),
        compare.edit("first"),
        compare.person_name(["first", "last"]),
        compare.people_overlap("coauthors", separator=";"),
        compare.soft_tokens("title"),
        compare.exact("venue"),
        compare.soft_tokens("booktitle"),
        compare.year("year"),
    ]
    return Spec(ENTITY, fields, id=ID)


def richer_coreference_spec() -> Spec:
    """Mentions as `coreference_spec` has them, with parts of names, acronyms, the whole mention and its sort."""
    fields = [
        compare.proper_noun("name"),
        compare.company("name"),
        compare.proper_noun("span"),
        compare.jaro_winkler("head"),
        compare.category("etype"),
    ]
    return Spec(ENTITY, fields, id=ID, group=DOCUMENT)
