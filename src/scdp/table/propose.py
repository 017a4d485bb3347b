"""Proposed comparisons: columns of records go in; what each looks like and how it is compared come out."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from scdp import compare
from scdp.compare import Comparison
from scdp.compare.cells import cell_text
from scdp.compare.names import words_of
from scdp.table.columns import ColumnLook, look_at
from scdp.table.records import Records

# Two columns of names are swapped in some records if so many of their cells are found in the other.
MIXED_UP = 0.01
# A column repeats others if its words are theirs in so many records.
REPEATED = 0.9
# Names in documents have at least this share of names of one word.
SINGLE_WORDS = 0.2
# A column repeats the label if it does so for at least so many clusters of two records or more.
FEWEST_CLUSTERS = 10
SAME_AS_LABEL = 0.5

LEFT_OUT = {
    "empty": "no record has a value",
    "constant": "all records have the same value",
    "identifier": "every record has another one",
    "notes": "free notes say little about who it is",
    "origin": "says where a record is from, not what it is",
}


@dataclass(frozen=True)
class ProposedColumn:
    """A column, what it looks like and how it is compared; `note` says why it is not, or what is special about it.

    `missing` are texts of it that stand for a missing cell.
    """

    column: str
    looks_like: str
    comparisons: tuple[Comparison, ...]
    examples: tuple[str, ...]
    missing: tuple[str, ...] = ()
    note: str = ""


@dataclass(frozen=True)
class Proposal:
    """A row for each column, in the order of the table."""

    rows: tuple[ProposedColumn, ...]

    @property
    def fields(self) -> tuple[Comparison, ...]:
        """All comparisons, each once, in the order of the columns."""
        return tuple(dict.fromkeys(comparison for row in self.rows for comparison in row.comparisons))


def proposed_comparisons(
    records: Records, columns: Iterable[str], entity: str | None = None, in_documents: bool = False
) -> list[Comparison]:
    """The comparisons of `propose_columns`."""
    return list(propose_columns(records, columns, entity, in_documents).fields)


def propose_columns(
    records: Records, columns: Iterable[str], entity: str | None = None, in_documents: bool = False
) -> Proposal:
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

    Example
    -------
    >>> records = Records({"tel": np.array(["+44 1736 992142", "01736 992142", "n/a"], dtype=object)})
    >>> [row.looks_like for row in propose_columns(records, ["tel"]).rows]
    ['phone']
    """
    looks = {name: look_at(records, name) for name in columns}
    if in_documents:
        looks = {name: _mentioned(look) for name, look in looks.items()}
    reasons = _reasons(records, looks, entity)
    used = {name: look for name, look in looks.items() if name not in reasons}
    compared = _joined(used)
    for name, look in used.items():
        if name not in compared:
            compared[name] = _of_look(look)
    return Proposal(tuple(_row(look, compared.get(name, ()), reasons.get(name, "")) for name, look in looks.items()))


def _mentioned(look: ColumnLook) -> ColumnLook:
    """Names of one word beside longer ones are names in texts."""
    n_single = sum(" " not in text for text in look.texts)
    is_name = look.look in ("name", "full name", "company") and n_single > SINGLE_WORDS * len(look.texts)
    return replace(look, look="proper noun") if is_name else look


def _row(look: ColumnLook, comparisons: Sequence[Comparison], reason: str) -> ProposedColumn:
    notes = [reason] if reason else []
    if look.missing:
        notes.append("missing: " + ", ".join(map(repr, look.missing)))
    return ProposedColumn(look.name, look.look, tuple(comparisons), look.examples, look.missing, "; ".join(notes))


def _reasons(records: Records, looks: Mapping[str, ColumnLook], entity: str | None) -> dict[str, str]:
    """Why columns are left out."""
    reasons: dict[str, str] = {}
    for name, look in looks.items():
        if look.look in LEFT_OUT:
            reasons[name] = LEFT_OUT[look.look]
        elif look.look == "category" and "origin" in look.hints:
            reasons[name] = LEFT_OUT["origin"]
        elif entity is not None and _repeats_label(records, name, entity):
            reasons[name] = "repeats the label; add it to the spec if it is known beforehand"
    for name, others in _repeated_names(records, looks).items():
        reasons.setdefault(name, "repeats " + " and ".join(others))
    return reasons


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
    parts = _name_parts(looks)
    if parts is None:
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


def _name_parts(looks: Mapping[str, ColumnLook]) -> tuple[str, str] | None:
    """The columns of first and last names, the first of each."""
    found = [
        next((name for name, look in looks.items() if look.look == wanted), None)
        for wanted in ("first name", "last name")
    ]
    return (found[0], found[1]) if found[0] is not None and found[1] is not None else None


def _joined(looks: Mapping[str, ColumnLook]) -> dict[str, tuple[Comparison, ...]]:
    """Comparisons of columns that belong together: names, coordinates, parts of dates and addresses, codes."""
    found: dict[str, tuple[Comparison, ...]] = {}
    names = _name_parts(looks) or _mixed_up(looks)
    if names is not None:
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
    """One column of each look, or none at all."""
    found = [next((name for name, look in looks.items() if look.look == each), None) for each in wanted]
    return tuple(name for name in found if name is not None) if None not in found else ()


def _missing(looks: Mapping[str, ColumnLook], *names: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys(text for name in names for text in looks[name].missing))


def _mixed_up(looks: Mapping[str, ColumnLook]) -> tuple[str, str] | None:
    """Two columns of names that some records have the wrong way round."""
    names = [look for look in looks.values() if look.look in ("first name", "last name", "full name")]
    best, found = MIXED_UP, None
    for place, one in enumerate(names):
        for other in names[place + 1 :]:
            first, second = ({text.lower() for text in look.texts} for look in (one, other))
            shared = sum(text.lower() in second for text in one.texts) + sum(
                text.lower() in first for text in other.texts
            )
            share = shared / (len(one.texts) + len(other.texts))
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
    "proper noun": ("proper_noun", "company"),
    "text with codes": ("codes_in_text", "soft_tokens"),
    "long text": ("soft_tokens", "qgram_tfidf"),
    "very long text": ("tfidf",),
}
