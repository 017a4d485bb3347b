"""Specs for people: comparisons in plain words, and a commented TOML text of what was proposed and why."""

from __future__ import annotations

from collections.abc import Iterator

from scdp.compare import Comparison
from scdp.compare.prepared import cell_text
from scdp.table.propose import propose_columns
from scdp.table.records import Records
from scdp.table.spec import Spec

PHRASES = {
    "edit": "edit distance of {}",
    "edit_head": "edit distance of the last word of {}",
    "edit_abbreviation": "edit distance of the abbreviation of {}",
    "longest_common_substring": "longest common substring of {}",
    "longest_common_subsequence": "longest common subsequence of {}",
    "jaro_winkler": "Jaro-Winkler distance of {}",
    "token_set": "words that differ in {}",
    "rare_words": "rare words that differ in {}",
    "exact": "whether {} is equal",
    "absolute": "difference of {}",
    "count_difference": "difference in how common {} is",
    "shared_coauthors": "names in common in {}",
    "person_name": "name of a person in {}",
    "company": "name of a company in {}",
    "date": "date in {}",
    "phone": "phone in {}",
    "email": "email in {}",
    "url": "web address in {}",
    "address": "address in {}",
    "code": "code in {}",
    "codes_in_text": "codes inside {}",
    "relative": "relative difference of {}",
    "geo": "kilometres between {}",
    "category": "whether {} is the same category",
    "tfidf": "words of {} by rarity",
    "qgram_tfidf": "letters of {} by rarity",
    "soft_tokens": "words of {}, near ones too, by rarity",
    "contained_tokens": "words of {} that are in the other",
    "set_overlap": "members in common in {}",
    "people_overlap": "people in common in {}",
    "acronym": "acronym of {}",
}
PARTS = {
    "first_of_list": "the first of {}",
    "head": "the last word of {}",
    "abbreviation": "the abbreviation of {}",
    "digits": "the digits of {}",
    "year": "the year of {}",
}


def in_words(comparison: Comparison) -> str:
    """What a comparison compares, as a person would say it."""
    what = " and ".join(comparison.columns)
    what = PARTS[comparison.of].format(what) if comparison.of in PARTS else what
    return PHRASES.get(comparison.kind, comparison.kind + " of {}").format(what)


def commented_toml(spec: Spec, records: Records) -> str:
    """The TOML text of a spec, each field with what it compares and how its columns are filled."""
    opening, *fields = spec.to_toml().split("[[field]]\n")
    notes = [_note(comparison, records) for comparison in spec.fields]
    blocks = [f"# {note}\n[[field]]\n{text}" for note, text in zip(notes, fields, strict=True)]
    return "\n".join(_heading(spec, records)) + f"\n{opening}" + "".join(blocks)


def _heading(spec: Spec, records: Records) -> Iterator[str]:
    yield f"# How {len(records)} records are compared: entity is the column of known clusters, id that of names."
    yield "# Change, add or remove fields, then fit again with  --spec  and the name of this file."
    used = {name for comparison in spec.fields for name in comparison.columns}
    columns = [name for name in records.names if name not in {spec.entity, spec.id, spec.group}]
    entity = spec.entity if spec.entity in records.names else None
    for row in propose_columns(records, columns, entity).rows if not used.issuperset(columns) else ():
        if row.column in used:
            continue
        why = f"{row.note}; " if row.note and not row.comparisons else ""
        yield f"# Not compared: {_one_line(f'{row.column} ({why}{_filled(records, row.column)})')}."


def _note(comparison: Comparison, records: Records) -> str:
    filled = "; ".join(f"{name}: {_filled(records, name)}" for name in comparison.columns)
    return _one_line(f"{in_words(comparison)} ({filled})")


def _filled(records: Records, name: str) -> str:
    texts = [text for cell in records[name] if (text := (cell_text(cell) or "").strip())]
    missing = 1 - len(texts) / max(1, len(records))
    distinct = len(set(texts)) / max(1, len(texts))
    return f"{missing:.0%} missing, {distinct:.0%} distinct"


def _one_line(text: str) -> str:
    # A control character would end the comment, or be no TOML at all.
    return "".join(character if character.isprintable() else " " for character in text)
