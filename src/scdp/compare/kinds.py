"""The kinds of comparison: what each takes from a cell, its options and range, and who scores it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from scdp.compare.coauthors import SharedNamesScorer
from scdp.compare.scorers import (
    ExactScorer,
    FunctionScorer,
    NumberScorer,
    RapidFuzzScorer,
    RareWordsScorer,
    Scorer,
    SubstringScorer,
    TokenSetScorer,
)
from scdp.errors import InputError

if TYPE_CHECKING:
    from scdp.compare.comparison import Comparison

# What one cell becomes: a cleaned text, a number, how common the text is, or the names of a list.
Value = Literal["text", "number", "share", "names"]
MakeScorer = Callable[["Comparison", Sequence[Any]], Scorer]


@dataclass(frozen=True)
class Kind:
    """`part` is a transform the kind always applies; `options` are those it has, with their defaults.

    With `of_all`, the distance of two records depends on the others at hand.
    """

    value: Value
    scorer: MakeScorer
    range: str = "[0, 1]"
    part: str | None = None
    options: Mapping[str, float | str | None] = field(default_factory=dict)
    of_all: bool = False


def _rapidfuzz(measure: str) -> MakeScorer:
    def make(comparison: Comparison, vocabulary: Sequence[str]) -> Scorer:
        from rapidfuzz import distance

        return RapidFuzzScorer(vocabulary, getattr(distance, measure).normalized_distance)

    return make


def _scaled_numbers(comparison: Comparison, vocabulary: Sequence[float]) -> Scorer:
    if comparison.scale is None:
        raise InputError(
            f"comparison {comparison.name!r} has no scale yet: give scale=... or use spec.fit(records)"
        )
    return NumberScorer(vocabulary, comparison.scale)


def _shared_names(comparison: Comparison, vocabulary: Sequence[tuple[str, ...]]) -> Scorer:
    assert comparison.threshold is not None, "the kind has a default threshold"
    return SharedNamesScorer(vocabulary, comparison.threshold)


_EDIT = _rapidfuzz("Levenshtein")

BUILT_IN: dict[str, Kind] = {
    "edit": Kind("text", _EDIT),
    "edit_head": Kind("text", _EDIT, part="head"),
    "edit_abbreviation": Kind("text", _EDIT, part="abbreviation"),
    "longest_common_substring": Kind("text", lambda _, vocabulary: SubstringScorer(vocabulary)),
    "longest_common_subsequence": Kind("text", _rapidfuzz("LCSseq")),
    "jaro_winkler": Kind("text", _rapidfuzz("JaroWinkler")),
    "token_set": Kind("text", lambda _, vocabulary: TokenSetScorer(vocabulary)),
    "rare_words": Kind("text", lambda _, vocabulary: RareWordsScorer(vocabulary), of_all=True),
    "exact": Kind("text", lambda _, vocabulary: ExactScorer(), range="{0, 1}"),
    "absolute": Kind("number", _scaled_numbers, range="[0, inf), 1 = scale", options={"scale": None}),
    "count_difference": Kind("share", lambda _, vocabulary: NumberScorer(vocabulary, 1.0), of_all=True),
    "shared_coauthors": Kind(
        "names", _shared_names, range="(0, 1]", options={"separator": None, "threshold": 0.1}
    ),
}

_registered: dict[str, Kind] = {}


def known_kinds() -> dict[str, Kind]:
    """Built-in kinds and the user's own, by name."""
    return {**BUILT_IN, **_registered}


def register_kind(name: str, function: Callable[[str, str], float]) -> None:
    """Make a function of two cleaned texts a kind; registering a name again replaces it."""
    if name in BUILT_IN:
        raise InputError(f"comparison {name!r} is built in: register yours under another name")
    if not name.isidentifier():
        raise InputError(f"comparison name {name!r} must be letters, digits and underscores")

    def make(comparison: Comparison, vocabulary: Sequence[str]) -> Scorer:
        return FunctionScorer(vocabulary, name, function)

    _registered[name] = Kind("text", make, range="as the function gives")
