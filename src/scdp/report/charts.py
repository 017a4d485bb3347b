"""Small charts: arrays enter, inline SVG or PNG text for an HTML page leaves, without a plotting library."""

from __future__ import annotations

import struct
import zlib
from base64 import b64encode
from collections.abc import Sequence
from html import escape
from typing import Any

import numpy as np
from numpy.typing import NDArray

# Okabe and Ito's colours: they differ for colour-blind readers too.
PALETTE = ("#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00", "#f0e442", "#666666")
PAPER = np.array([246, 248, 250])
INK = np.array([16, 58, 110])

Floats = NDArray[np.float64]
Integers = NDArray[np.integer[Any]]


def png(shades: Floats) -> str:
    """A picture as a data address: shades in [0, 1] (rows, columns), from paper to ink."""
    colours = PAPER + np.clip(shades, 0.0, 1.0)[..., None] * (INK - PAPER)
    pixels = colours.round().astype(np.uint8)
    height, width = shades.shape
    # Every line of a PNG starts with its filter; 0 is none.
    lines = b"".join(b"\0" + row.tobytes() for row in pixels)
    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    content = b"\x89PNG\r\n\x1a\n" + _chunk(b"IHDR", header)
    content += _chunk(b"IDAT", zlib.compress(lines, 9)) + _chunk(b"IEND", b"")
    return "data:image/png;base64," + b64encode(content).decode("ascii")


def _chunk(kind: bytes, body: bytes) -> bytes:
    return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))


def histogram(counts: Integers, interval: tuple[int, int], truth: int | None = None) -> str:
    """How often each whole number occurs, as bars; those in the interval are dark, the truth is a line."""
    counts = np.asarray(counts).ravel()
    ends = [counts.min(), counts.max()] + ([] if truth is None else [truth])
    low, high = int(min(ends)) - 1, int(max(ends)) + 1
    shares = np.bincount(counts - low, minlength=high - low + 1) / len(counts)
    step, base, tall = 420 / len(shares), 190.0, 150.0
    parts = []
    for place, share in enumerate(shares.tolist()):
        value, height = low + place, tall * share / float(shares.max())
        shade = PALETTE[0] if interval[0] <= value <= interval[1] else "#b8cbdc"
        x = 20 + place * step
        if share > 0:
            parts.append(
                f'<rect x="{x + 0.08 * step:.1f}" y="{base - height:.1f}" width="{0.84 * step:.1f}" '
                f'height="{height:.1f}" rx="2" fill="{shade}"><title>{value}: {share:.1%}</title></rect>'
            )
        if _is_ticked(place, len(shares)):
            parts.append(f'<text x="{x + step / 2:.1f}" y="208" text-anchor="middle">{value}</text>')
    parts.append(f'<line x1="20" y1="{base}" x2="440" y2="{base}" stroke="#8a97a5"/>')
    if truth is not None:
        parts.append(_truth_line(20 + (truth - low + 0.5) * step, truth))
    return _svg(460, 216, parts, "Histogram of the number of clusters over the draws")


def _is_ticked(place: int, bars: int) -> bool:
    return place % (1 + bars // 16) == 0


def _truth_line(x: float, truth: int) -> str:
    return (
        f'<line x1="{x:.1f}" y1="24" x2="{x:.1f}" y2="190" stroke="#d55e00" stroke-width="2" '
        f'stroke-dasharray="4 3"/><text x="{x:.1f}" y="16" text-anchor="middle" fill="#b34700">true: {truth}</text>'
    )


def heat_map(probabilities: Floats, clusters: Sequence[int], kinds: Sequence[int]) -> str:
    """Co-clustering of items in the given order: a picture, lines between clusters, a strip of true kinds."""
    size, edge, strip = len(probabilities), 400.0, 14.0
    step = edge / size
    colour_of = colours_of(kinds)
    parts = [
        f'<image x="{strip + 6}" y="0" width="{edge}" height="{edge}" preserveAspectRatio="none" '
        f'style="image-rendering:pixelated" href="{png(probabilities)}"/>'
    ]
    parts += [
        f'<rect x="0" y="{i * step:.2f}" width="{strip}" height="{step + 0.2:.2f}" fill="{colour_of[kind]}"/>'
        for i, kind in enumerate(kinds)
    ]
    for i in range(1, size):
        if clusters[i] != clusters[i - 1]:
            parts.append(
                f'<path d="M0 {i * step:.2f}H{strip + 6 + edge}M{strip + 6 + i * step:.2f} 0V{edge}" '
                'stroke="#fff" stroke-width="1"/>'
            )
    return _svg(420, 400, parts, "Heat map of the probability that two items are together")


def colours_of(kinds: Sequence[int]) -> dict[int, str]:
    """A colour for each kind, in the order in which they appear, so that neighbours differ; colours repeat."""
    return {kind: PALETTE[place % len(PALETTE)] for place, kind in enumerate(dict.fromkeys(kinds))}


def _svg(width: int, height: int, parts: list[str], title: str) -> str:
    return (
        f'<svg viewBox="0 0 {width} {height}" role="img" aria-label="{escape(title)}" '
        f'xmlns="http://www.w3.org/2000/svg">{"".join(parts)}</svg>'
    )
