"""Blocking: which pairs of records are worth comparing, and the components they fall into."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from scdp.blocking.expressions import Expression, digits, last_word, prefix, qgrams, soundex, text, tokens, year
from scdp.blocking.rules import Blocking, Rule, equal, identical, neighbourhood, overlap

if TYPE_CHECKING:
    from scdp.blocking.candidates import CandidatePairs, candidate_pairs, read_pair_chunks, stream_candidate_pairs
    from scdp.blocking.learn import LearnedRules, learn_blocking, learn_blockings
    from scdp.partitions import Components, connected_components

__all__ = [
    "Blocking",
    "CandidatePairs",
    "Components",
    "Expression",
    "LearnedRules",
    "Rule",
    "candidate_pairs",
    "connected_components",
    "digits",
    "equal",
    "identical",
    "last_word",
    "learn_blocking",
    "learn_blockings",
    "neighbourhood",
    "overlap",
    "prefix",
    "qgrams",
    "read_pair_chunks",
    "soundex",
    "stream_candidate_pairs",
    "text",
    "tokens",
    "year",
]

# Loaded on first use: a blocking is described without compiling kernels.
_HOME = {
    "CandidatePairs": "scdp.blocking.candidates",
    "Components": "scdp.partitions",
    "LearnedRules": "scdp.blocking.learn",
    "candidate_pairs": "scdp.blocking.candidates",
    "connected_components": "scdp.partitions",
    "learn_blocking": "scdp.blocking.learn",
    "learn_blockings": "scdp.blocking.learn",
    "read_pair_chunks": "scdp.blocking.candidates",
    "stream_candidate_pairs": "scdp.blocking.candidates",
}


def __getattr__(name: str) -> Any:
    if name in _HOME:
        return getattr(import_module(_HOME[name]), name)
    raise AttributeError(f"module 'scdp.blocking' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
