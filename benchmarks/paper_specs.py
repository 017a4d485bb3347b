"""Richer features than the paper has for its text tasks, as specs: what a table of accuracy is also made with."""

from __future__ import annotations

from scdp import compare
from scdp.paper.tasks import DOCUMENT, ENTITY, ID
from scdp.table.spec import Spec


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
