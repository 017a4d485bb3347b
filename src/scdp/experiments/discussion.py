"""What we make of the numbers, for docs/results.md; written by people, beside the tables that are made by the run."""

from __future__ import annotations

DISCUSSION: tuple[tuple[str, str], ...] = ()
