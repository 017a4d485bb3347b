"""The frame of every report: texts and pieces of HTML enter; one page that asks the network for nothing leaves."""

from __future__ import annotations

import html
import re
import unicodedata
from base64 import b64encode
from collections.abc import Iterable
from difflib import SequenceMatcher
from hashlib import sha256
from typing import Any

# Words of some scripts and joined pictures need these two, and they move nothing.
JOINERS = "\u200c\u200d"
# Control, format, surrogate and separator characters are not seen, or turn what follows around.
HIDDEN_KINDS = {"Cc", "Cf", "Cs", "Zl", "Zp"}
LONGEST = 600
WORDS = re.compile(r"\w+|\s+|.", re.DOTALL)


def escape_hidden(text: Any) -> str:
    """The text with characters that cannot be seen written as their escapes, such as \\u202e."""
    words = str(text)
    return words if words.isprintable() else "".join(map(_escape_character, words))


def _escape_character(character: str) -> str:
    if unicodedata.category(character) not in HIDDEN_KINDS or character in JOINERS:
        return character
    code = ord(character)
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def escape(text: Any) -> str:
    """The text as HTML, for content and for quoted attributes."""
    return html.escape(escape_hidden(text))


def isolate(text: Any) -> str:
    """As `escape`, with letters that run from right to left kept from turning their neighbours around."""
    return f"<bdi>{escape(text)}</bdi>"


def shorten(text: str, longest: int = LONGEST) -> str:
    return text if len(text) <= longest else text[: longest - 1].rstrip() + "…"


def mark_differences(text: str, other: str) -> str:
    """The text as HTML, with the words that `other` has not in the same order marked."""
    words, others = (WORDS.findall(escape_hidden(shorten(each))) for each in (text, other))
    pieces = []
    for kind, start, end, _, _ in SequenceMatcher(None, words, others, autojunk=False).get_opcodes():
        piece = html.escape("".join(words[start:end]))
        if piece:
            pieces.append(piece if kind == "equal" else f"<mark>{piece}</mark>")
    return f"<bdi>{''.join(pieces)}</bdi>"


STYLE = """
:root{--paper:#f4f6f8;--card:#fff;--field:#f7f9fb;--ink:#17212b;--soft:#566471;--line:#dde3e9;--axis:#8a97a5;
--blue:#0072b2;--pale:#b8cbdc;--green:#008a65;--orange:#b34700;--amber:#e69f00;--red:#c2310b;--mark:#ffd58a;
--differs:#fdf4e3;--on:#fff}
@media(prefers-color-scheme:dark){:root{--paper:#12171c;--card:#1b2229;--field:#232c35;--ink:#e6ebf0;--soft:#a3b1be;
--line:#323c46;--axis:#74828f;--blue:#62b5ea;--pale:#3c5468;--green:#4cc9a0;--orange:#f29a5b;--amber:#e6b23c;
--red:#ff7d5c;--mark:#6b4e00;--differs:#2e2717;--on:#08202f}}
html{color-scheme:light dark}
*{box-sizing:border-box}
body{margin:0;background:var(--paper);color:var(--ink);font:16px/1.5 system-ui,-apple-system,"Segoe UI",sans-serif}
main{max-width:1080px;margin:0 auto;padding:32px 20px 48px}
h1{font-size:1.75rem;line-height:1.2;margin:0 0 8px;overflow-wrap:anywhere}
h2{font-size:1.05rem;margin:0 0 8px}
p{margin:0 0 12px;overflow-wrap:anywhere}
.lead{color:var(--soft);max-width:44rem}
.verdict{border-left:4px solid var(--green);background:var(--field);padding:10px 14px;border-radius:4px;
margin:4px 0 12px}
.verdict.warn{border-color:var(--orange)}
.figures{display:grid;grid-template-columns:1fr 1fr;gap:0 16px}
.figures>div{min-width:0;display:flex;flex-direction:column}
.figures section:last-child{flex:1}
section{background:var(--card);border:1px solid var(--line);border-radius:8px;padding:16px 18px;
margin:0 0 16px;min-width:0}
svg{display:block;width:100%;height:auto;font:12px system-ui,sans-serif;fill:var(--soft)}
.note{color:var(--soft);font-size:.88rem;margin:10px 0 0}
.scroll{overflow-x:auto}
table{border-collapse:collapse;width:100%;font-size:.95rem;font-variant-numeric:tabular-nums}
th,td{text-align:right;padding:5px 6px;border-bottom:1px solid var(--line);white-space:nowrap}
th{color:var(--soft);font-weight:600;font-size:.85rem}
th:first-child,td:first-child{text-align:left;white-space:normal}
.pair{border-top:1px solid var(--line);padding:10px 0}
.pair h3{font-size:.9rem;margin:0 0 4px;font-weight:600}
.pair h3 span{color:var(--soft);font-weight:400}
.pair table{table-layout:fixed}
.pair th,.pair td{text-align:left;white-space:normal;overflow-wrap:anywhere;border:0;padding:1px 6px;vertical-align:top}
.pair th:first-child{width:6.5rem}
.pair tr.differs td{background:var(--differs)}
@media(max-width:760px){.figures{grid-template-columns:1fr}main{padding:20px 12px}section{padding:14px 12px}}
@media(max-width:480px){svg{font-size:14px}table{font-size:.84rem}th{font-size:.75rem}th,td{padding:6px 3px}
.pair th:first-child{width:4.6rem}}
"""

# The page needs nothing from outside, and says so to the browser.
POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"


def whole_page(title: str, body: Iterable[str], style: str = "", script: str = "") -> str:
    """The page as one text; the pieces of the body are markup of our own.

    The policy of the page pins the script by its digest: no other can run.
    """
    lines = "\n".join(body)
    policy = POLICY
    if script:
        digest = b64encode(sha256(script.encode()).digest()).decode()
        policy += f"; script-src 'sha256-{digest}'"
        lines += f"<script>{script}</script>"
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width,initial-scale=1">'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">'
        f"<title>{escape(title)}</title><style>{STYLE}{style}</style></head>\n"
        f"<body><main>{lines}</main></body></html>\n"
    )


def section(title: str, content: str, note: str = "") -> str:
    """A titled part of the page; `content` is markup of our own, the words are plain text."""
    return f"<section><h2>{escape(title)}</h2>{content}{footnote(note)}</section>"


def footnote(text: str) -> str:
    return f'<p class="note">{escape(text)}</p>' if text else ""


def verdict(text: str, good: bool) -> str:
    """A sentence that says whether to trust what follows."""
    return f'<p class="verdict{"" if good else " warn"}">{escape(text)}</p>'


def field_row(name: str, left: str, right: str, *kinds: str) -> str:
    """One field of two records side by side; the cells are markup already, `kinds` are classes of the style."""
    kind = f' class="{" ".join(kinds)}"' if kinds else ""
    return f"<tr{kind}><th>{escape(name)}</th><td>{left}</td><td>{right}</td></tr>"


MISSING = "<small>missing</small>"
