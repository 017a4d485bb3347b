"""The page of the package index: README.md enters; it leaves without links that lead nowhere from there.

Files of the repository have no address on the index, so links to them become their words.
"""

from __future__ import annotations

import re
from pathlib import Path

from hatchling.metadata.plugin.interface import MetadataHookInterface


def without_relative_links(text: str) -> str:
    """Links and pictures keep only their words, unless they name a whole address or a heading of the page."""
    return re.sub(r"!?\[([^\]]*)\]\((?![a-z]+:|#)[^)\s]*\)", r"\1", text)


class ReadmeHook(MetadataHookInterface):
    """Called by hatchling when the package is built."""

    def update(self, metadata: dict) -> None:
        """Put the page into the metadata."""
        text = (Path(self.root) / "README.md").read_text(encoding="utf-8")
        metadata["readme"] = {"content-type": "text/markdown", "text": without_relative_links(text)}
