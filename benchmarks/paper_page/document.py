"""A small document: headings, paragraphs, tables and figures enter; Markdown or one self-contained HTML page leaves."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path


@dataclass(frozen=True)
class Heading:
    """A title; level 1 is the document's."""

    text: str
    level: int = 2


@dataclass(frozen=True)
class Paragraph:
    """Plain text."""

    text: str


@dataclass(frozen=True)
class TextTable:
    """Cells are text; the first column is the row's name, the others are numbers and stand to the right."""

    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    words: tuple[int, ...] = (0,)


@dataclass(frozen=True)
class Figure:
    """A picture in a file beside the document."""

    path: Path
    caption: str


Block = Heading | Paragraph | TextTable | Figure


def to_markdown(blocks: Sequence[Block], folder: Path) -> str:
    """Markdown; pictures are named by their path from `folder`."""
    return "\n\n".join(_markdown(block, folder) for block in blocks) + "\n"


def _markdown(block: Block, folder: Path) -> str:
    if isinstance(block, Heading):
        return f"{'#' * block.level} {block.text}"
    if isinstance(block, Paragraph):
        return block.text
    if isinstance(block, Figure):
        return f"![{block.caption}]({block.path.relative_to(folder).as_posix()})\n\n*{block.caption}*"
    marks = ["---" if column in block.words else "--:" for column in range(len(block.header))]
    lines = [block.header, marks, *block.rows]
    return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines)


STYLE = """
:root { color-scheme: light dark;
  --ink: #1d2733; --soft: #5d6b7a; --rule: #d5dbe1; --ground: #ffffff; --band: #f4f6f8; }
@media (prefers-color-scheme: dark) {
  :root { --ink: #e4e9ee; --soft: #9aa7b4; --rule: #3a4550; --ground: #14191f; --band: #1c232b; }
}
body { margin: 0 auto; padding: 2rem 1.25rem 4rem; max-width: 88rem; color: var(--ink); background: var(--ground);
  font: 16px/1.55 system-ui, "Segoe UI", "Helvetica Neue", Arial, sans-serif; }
h1 { font-size: 1.9rem; line-height: 1.2; margin: 0 0 1rem; }
h2 { font-size: 1.35rem; margin: 2.6rem 0 .6rem; padding-top: .8rem; border-top: 1px solid var(--rule); }
h3 { font-size: 1.05rem; margin: 1.6rem 0 .4rem; }
p { max-width: 48rem; margin: .5rem 0; overflow-wrap: anywhere; }
.frame { overflow-x: auto; margin: .8rem 0 1.2rem; }
table { border-collapse: collapse; font-size: .875rem; font-variant-numeric: tabular-nums; }
th, td { padding: .32rem .5rem; text-align: right; border-bottom: 1px solid var(--rule); white-space: nowrap; }
th { color: var(--soft); font-weight: 600; white-space: normal; vertical-align: bottom; }
td.words, th.words { text-align: left; }
td.words { white-space: normal; overflow-wrap: anywhere; min-width: 7rem; }
td:first-child { white-space: nowrap; overflow-wrap: normal; min-width: 0; }
tbody tr { background: var(--ground); }
tbody tr:nth-child(even) { background: var(--band); }
th:first-child, td:first-child { position: sticky; left: 0; background: inherit; }
thead tr { background: var(--ground); }
figure { margin: 1.2rem 0; }
figure img { width: var(--natural); max-width: 100%; height: auto; background: #ffffff; border-radius: 4px; }
@media (max-width: 600px) {
  /* Letters in a wide picture would be too small to read: it is scrolled by itself. */
  figure .frame { margin: 0; }
  figure img { max-width: max(100%, calc(.64 * var(--natural))); }
  td:first-child { white-space: normal; }
}
figcaption { color: var(--soft); font-size: .9rem; max-width: 48rem; }
"""

# Nothing may be asked of another place: the page must read the same offline and in ten years.
POLICY = "default-src 'none'; img-src data:; style-src 'unsafe-inline'"


def to_html(blocks: Sequence[Block], title: str) -> str:
    """One page with its style and pictures inside."""
    body = "\n".join(map(_html, blocks))
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        # A browser asks for an icon unless the page brings one.
        f'<link rel="icon" href="data:,">\n<title>{escape(title)}</title>\n<style>{STYLE}</style>\n</head>\n'
        f"<body>\n{body}\n</body>\n</html>\n"
    )


def _html(block: Block) -> str:
    if isinstance(block, Heading):
        return f"<h{block.level}>{escape(block.text)}</h{block.level}>"
    if isinstance(block, Paragraph):
        return f"<p>{escape(block.text)}</p>"
    if isinstance(block, Figure):
        return _figure(block)
    return f'<div class="frame"><table>{_table_rows(block)}</table></div>'


def _figure(figure: Figure) -> str:
    content = figure.path.read_bytes()
    # A PNG file says its width in its first chunk; ours have 150 dots an inch and a screen has 96.
    natural = int.from_bytes(content[16:20], "big") * 96 / 150
    text = escape(figure.caption)
    return (
        f'<figure><div class="frame"><img style="--natural:{natural:.0f}px" alt="{text}" '
        f'src="data:image/png;base64,{base64.b64encode(content).decode()}"></div>'
        f"<figcaption>{text}</figcaption></figure>"
    )


def _table_rows(table: TextTable) -> str:
    head = "".join(_cell("th", column, text, table) for column, text in enumerate(table.header))
    lines = (
        "<tr>" + "".join(_cell("td", column, text, table) for column, text in enumerate(row)) + "</tr>"
        for row in table.rows
    )
    return f"<thead><tr>{head}</tr></thead><tbody>{''.join(lines)}</tbody>"


def _cell(tag: str, column: int, text: str, table: TextTable) -> str:
    kind = ' class="words"' if column in table.words else ""
    return f"<{tag}{kind}>{escape(text)}</{tag}>"
