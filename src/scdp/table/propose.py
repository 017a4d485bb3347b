"""What a table's columns suggest: which comparisons are proposed of its records, and why some columns are left out."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations

import numpy as np

from scdp import compare
from scdp.compare import Comparison
from scdp.compare.cells import cell_text
from scdp.compare.languages import words_of
from scdp.errors import InputError
from scdp.table import Records
from scdp.table.columns import ColumnLook, look_at
from scdp.table.forms import has_capital
from scdp.table.spec import Spec

# Comparisons are proposed for at most so many columns.
MOST_PROPOSED = 200


def propose(
    records: Records, entity: str | None, id: str | None = None, group: str | None = None, source: str | None = None
) -> Spec:
    """A spec with comparisons chosen by what the columns hold: their types, missing and distinct values."""
    used = [name for name in (entity, id, group, source) if name]
    for column in used:
        records.require(column)
    others = [name for name in records.names if name not in used]
    if len(others) > MOST_PROPOSED:
        raise InputError(
            f"{records.source}: has {len(others):,} columns to compare, and comparisons are proposed for at most "
            f"{MOST_PROPOSED}; name the fields in a spec"
        )
    found = propose_columns(records, others, entity, group is not None, group)
    fields = join_comparisons(found)
    if not fields:
        raise InputError(f"{records.source}: no column is left to compare; name the fields in the spec")
    return Spec(entity, fields, id, group, source=source, further=further_comparisons(found))


# Two columns of names are swapped in some records if so many of their cells are found in the other.
MIXED_UP = 0.01
# A column repeats others if its words are theirs in so many records.
REPEATED = 0.9
# Names in documents have at least this share of names of one word.
SINGLE_WORDS = 0.2
# Mentions have capitals in so many cells, or stand in columns of these names.
CAPITALS = 0.5
MENTIONS = ("text", "span", "head", "mention", "antecedent", "tokens", "word", "words", "name")
MENTIONED = ("short text", "word", "title", "name", "full name", "first name", "last name", "company", "place")
NAME_PARTS = ("first name", "last name")
# A column repeats the label if it does so for at least so many clusters of two records or more.
FEWEST_CLUSTERS = 10
SAME_AS_LABEL = 0.5

LEFT_OUT = {
    "empty": "no record has a value",
    "constant": "all records have the same value",
    "identifier": "every record has another one",
    "notes": "free notes say little about who it is",
    "origin": "says where a record is from, not what it is",
    "record time": "says when the record was made, not what it is",
}


@dataclass(frozen=True)
class ProposedColumn:
    """A column, what it looks like and how it is compared; `note` says why it is not, or what is special about it.

    `missing` are texts of it that stand for a missing cell. `further` are comparisons that labelled clusters may find
    to help beside these.
    """

    column: str
    looks_like: str
    comparisons: tuple[Comparison, ...]
    examples: tuple[str, ...]
    missing: tuple[str, ...] = ()
    note: str = ""
    further: tuple[Comparison, ...] = ()


def proposed_comparisons(
    records: Records,
    columns: Iterable[str],
    entity: str | None = None,
    in_documents: bool = False,
    group: str | None = None,
) -> list[Comparison]:
    """The comparisons of `propose_columns`, each once, in the order of the columns."""
    return join_comparisons(propose_columns(records, columns, entity, in_documents, group))


def join_comparisons(rows: Iterable[ProposedColumn]) -> list[Comparison]:
    """The comparisons of all columns, each once."""
    return list(dict.fromkeys(comparison for row in rows for comparison in row.comparisons))


def further_comparisons(rows: Iterable[ProposedColumn]) -> list[Comparison]:
    """The further comparisons of columns that are compared."""
    return [comparison for row in rows if row.comparisons for comparison in row.further]


def propose_columns(
    records: Records,
    columns: Iterable[str],
    entity: str | None = None,
    in_documents: bool = False,
    group: str | None = None,
) -> list[ProposedColumn]:
    """What each of the columns looks like, and comparisons that suit it: at most two a column.

    Parameters
    ----------
    records
        Training records, or all that are to be clustered.
    columns
        Those that may be compared.
    entity
        The column of known clusters: a column that repeats it is left out.
    in_documents
        Whether records are mentions in documents: names are then names in texts.
    group
        The column of groups: a column that is constant within each is left out.

    Example
    -------
    >>> records = Records({"tel": np.array(["+44 1736 992142", "01736 992142", "n/a"], dtype=object)})
    >>> [row.looks_like for row in propose_columns(records, ["tel"])]
    ['phone']
    """
    looks = {name: look_at(records, name) for name in columns}
    if in_documents or group is not None:
        looks = {name: _mentioned(look) for name, look in looks.items()}
    reasons = _reasons(records, looks, entity, group)
    used = {name: look for name, look in looks.items() if name not in reasons}
    compared = _joined(used)
    for name, look in used.items():
        if name not in compared:
            compared[name] = _of_look(look)
    return [_row(look, compared.get(name, ()), reasons.get(name, "")) for name, look in looks.items()]


def _mentioned(look: ColumnLook) -> ColumnLook:
    """Names of one word beside longer ones are names in texts; so are mentions, by the name of their column."""
    n_single = sum(" " not in text for text in look.texts)
    is_name = look.look in ("name", "full name", "company") and n_single > SINGLE_WORDS * len(look.texts)
    if look.look in ("short text", "word", "title", "first name", "last name"):
        is_name = sum(map(has_capital, look.texts)) > CAPITALS * len(look.texts)
    named = look.look in MENTIONED and look.name.lower() in MENTIONS
    return replace(look, look="proper noun") if is_name or named else look


def _row(look: ColumnLook, comparisons: Sequence[Comparison], reason: str) -> ProposedColumn:
    notes = [reason] if reason else []
    if look.missing:
        notes.append("missing: " + ", ".join(map(repr, look.missing)))
    usual = tuple(comparisons)
    made = (compare.make_comparison(kind, look.name, missing=look.missing) for kind in _FURTHER.get(look.look, ()))
    names = {comparison.name for comparison in usual}
    further = tuple(comparison for comparison in made if comparison.name not in names)
    return ProposedColumn(look.name, look.look, usual, look.examples, look.missing, "; ".join(notes), further)


def _reasons(
    records: Records, looks: Mapping[str, ColumnLook], entity: str | None, group: str | None
) -> dict[str, str]:
    """Why columns are left out."""
    reasons: dict[str, str] = {}
    for name, look in looks.items():
        if look.look in LEFT_OUT:
            reasons[name] = LEFT_OUT[look.look]
        elif look.look == "category" and "origin" in look.hints:
            reasons[name] = LEFT_OUT["origin"]
        elif group is not None and _is_constant_within(records, name, group):
            reasons[name] = "the same in all records of a group"
        elif entity is not None and _repeats_label(records, name, entity):
            reasons[name] = "repeats the label; add it to the spec if it is known beforehand"
    for name, others in _repeated_names(records, looks).items():
        reasons.setdefault(name, "repeats " + " and ".join(others))
    return reasons


def _is_constant_within(records: Records, name: str, group: str) -> bool:
    """Whether all records of each group have the same value, and some groups have several records."""
    groups, cells = records[group].tolist(), records[name].tolist()
    n_groups = len(set(groups))
    return n_groups < len(groups) and len(set(zip(groups, cells, strict=True))) == n_groups


def _repeats_label(records: Records, name: str, entity: str) -> bool:
    """Whether values are mostly the labels themselves, or go with them one to one in all labelled records."""
    labels, cells = records[entity].tolist(), records[name].tolist()
    pairs = [(label, cell) for label, cell in zip(labels, cells, strict=True) if label is not None]
    if pairs and np.mean([label == cell for label, cell in pairs]) > SAME_AS_LABEL:
        return True
    if any(cell is None for _, cell in pairs):
        return False
    distinct = set(pairs)
    n_labels = len({label for label, _ in distinct})
    one_to_one = len(distinct) == n_labels == len({cell for _, cell in distinct})
    return one_to_one and len(pairs) - n_labels >= FEWEST_CLUSTERS


def _repeated_names(records: Records, looks: Mapping[str, ColumnLook]) -> dict[str, tuple[str, ...]]:
    """Columns of full names whose words are those of a first and a last name beside them."""
    parts = _all_of(looks, NAME_PARTS)
    if not parts:
        return {}
    first, last = (_words(records, name) for name in parts)
    found: dict[str, tuple[str, ...]] = {}
    for name, look in looks.items():
        if look.look in ("full name", "short text") and name not in parts:
            whole = _words(records, name)
            same = [a == b | c for a, b, c in zip(whole, first, last, strict=True) if a and b and c]
            if same and np.mean(same) > REPEATED:
                found[name] = parts
    return found


def _words(records: Records, name: str) -> list[frozenset[str]]:
    return [frozenset(words_of(cell_text(cell) or "")) for cell in records[name]]


def _joined(looks: Mapping[str, ColumnLook]) -> dict[str, tuple[Comparison, ...]]:
    """Comparisons of columns that belong together: names, coordinates, parts of dates and addresses, codes."""
    found: dict[str, tuple[Comparison, ...]] = {}
    names = _all_of(looks, NAME_PARTS) or _mixed_up(looks)
    if names:
        whole = compare.person_name(names, missing=_missing(looks, *names))
        for name in names:
            found[name] = (*_of_look(looks[name]), whole)
    for wanted, make in ((("latitude", "longitude"), compare.geo), (("year", "month", "day"), compare.date)):
        together = _all_of(looks, wanted)
        if together:
            found |= dict.fromkeys(together, (make(together, missing=_missing(looks, *together)),))
    number = next((name for name, look in looks.items() if look.look == "code" and "address" in look.hints), None)
    street = next((name for name, look in looks.items() if look.look == "address"), None)
    if number is not None and street is not None:
        both = compare.address((number, street), missing=_missing(looks, number, street))
        found |= {number: (both,), street: (both,)}
    return found | _joined_codes(looks)


def _joined_codes(looks: Mapping[str, ColumnLook]) -> dict[str, tuple[Comparison, ...]]:
    """Of texts beside a first one with codes: their words, and the codes of both together."""
    texts = [look for look in looks.values() if look.look == "text with codes"]
    return {
        look.name: (
            compare.tfidf(look.name, missing=look.missing),
            compare.codes_in_text((texts[0].name, look.name), missing=_missing(looks, texts[0].name, look.name)),
        )
        for look in texts[1:]
    }


def _all_of(looks: Mapping[str, ColumnLook], wanted: Sequence[str]) -> tuple[str, ...]:
    """The first column of each look, or none at all."""
    found = [next((name for name, look in looks.items() if look.look == each), None) for each in wanted]
    return tuple(name for name in found if name is not None) if None not in found else ()


def _missing(looks: Mapping[str, ColumnLook], *names: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys(text for name in names for text in looks[name].missing))


def _mixed_up(looks: Mapping[str, ColumnLook]) -> tuple[str, ...]:
    """Two columns of names that some records have the wrong way round."""
    names = [look for look in looks.values() if look.look in (*NAME_PARTS, "full name")]
    best: float = MIXED_UP
    found: tuple[str, ...] = ()
    for one, other in combinations(names, 2):
        first, second = ([text.lower() for text in look.texts] for look in (one, other))
        in_first, in_second = set(first), set(second)
        shared = sum(text in in_second for text in first) + sum(text in in_first for text in second)
        share = shared / (len(first) + len(second))
        if share > best:
            best, found = share, (one.name, other.name)
    return found


def _of_look(look: ColumnLook) -> tuple[Comparison, ...]:
    """The comparisons of a column by itself."""
    kinds = _KINDS[look.look]
    made = (compare.make_comparison(kind, look.name, missing=look.missing) for kind in kinds)
    if look.look in ("list", "people"):
        return tuple(
            replace(comparison, separator=look.separator) if "separator" in comparison.allowed_options else comparison
            for comparison in made
        )
    return tuple(made)


_KINDS: dict[str, tuple[str, ...]] = {
    "first name": ("person_name",),
    "last name": ("person_name",),
    "full name": ("person_name",),
    "company": ("company",),
    "name": ("company", "person_name"),
    "place": ("jaro_winkler",),
    "date": ("date",),
    "phone": ("phone",),
    "email": ("email",),
    "url": ("url",),
    "address": ("address",),
    "coordinates": ("geo",),
    "latitude": ("absolute",),
    "longitude": ("absolute",),
    "year": ("year",),
    "pages": ("pages",),
    "month": ("absolute",),
    "day": ("absolute",),
    "code": ("code",),
    "amount": ("relative",),
    "duration": ("duration",),
    "number": ("absolute",),
    "category": ("category",),
    "people": ("people_overlap", "qgram_tfidf"),
    "list": ("set_overlap",),
    "word": ("jaro_winkler",),
    "short text": ("company", "edit"),
    "title": ("title", "qgram_tfidf"),
    "venue": ("venue", "edit"),
    "proper noun": ("proper_noun", "company"),
    "text with codes": ("codes_in_text", "soft_tokens"),
    "long text": ("soft_tokens", "qgram_tfidf"),
    "very long text": ("tfidf",),
}

# What may help beside these, if labelled clusters say so.
_FURTHER: dict[str, tuple[str, ...]] = {
    "full name": ("qgram_tfidf",),
    "company": ("qgram_tfidf",),
    "name": ("qgram_tfidf",),
    "address": ("qgram_tfidf",),
    "short text": ("qgram_tfidf", "soft_tokens"),
    "title": ("soft_tokens",),
    "venue": ("qgram_tfidf",),
    "proper noun": ("rare_words", "edit_head"),
    "text with codes": ("qgram_tfidf",),
    "long text": ("contained_tokens",),
    "very long text": ("soft_tokens",),
}
