"""Reports for people: results enter, files that appear whole or not at all leave."""

from __future__ import annotations

from scdp.report.page import Figure, RecordPair, ReportPage, SystemRow

__all__ = ["Figure", "RecordPair", "ReportPage", "SystemRow"]
