"""Reports for people: results enter, files that appear whole or not at all leave."""

from __future__ import annotations

from scdp.io.atomic import open_folder, write_rows, write_text
from scdp.report.page import Figure, RecordPair, ReportPage, SystemRow

__all__ = ["Figure", "RecordPair", "ReportPage", "SystemRow", "open_folder", "write_rows", "write_text"]
