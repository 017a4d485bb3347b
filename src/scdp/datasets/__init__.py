"""Made-up records with known clusters, and the two shapes in which labelled data is handed over."""

from __future__ import annotations

from scdp.datasets.generate import Labelled, Task, make_records, make_tables

__all__ = ["Labelled", "Task", "make_records", "make_tables"]
