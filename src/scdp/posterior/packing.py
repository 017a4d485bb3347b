"""Bit packing: small integers enter, 64-bit words that hold each in `width` bits leave, and back."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from scdp._compile import kernel

Words = NDArray[np.uint64]


def bits_for(n_codes: int) -> int:
    """Bits that tell `n_codes` codes apart: none for a single one."""
    return max(0, int(n_codes) - 1).bit_length()


def words_for(n_items: int, width: int) -> int:
    """How many words one draw of `n_items` takes."""
    return (n_items * width + 63) // 64


@kernel
def pack(codes: NDArray[np.int32], width: int, words: Words) -> None:
    """Write each code in `width` bits, lowest first; a code may straddle two words. Words enter as zero."""
    for item in range(len(codes)):
        bit = item * width
        word = bit >> 6
        shift = bit & 63
        code = np.uint64(codes[item])
        words[word] |= code << np.uint64(shift)
        if shift + width > 64:
            words[word + 1] |= code >> np.uint64(64 - shift)


@kernel
def read_code(words: Words, start: int, item: int, width: int) -> int:
    """The code of one item in the draw whose words begin at `start`."""
    if width == 0:
        return 0
    # Widths are stored in eight bits: without the compiler NumPy would multiply in eight bits too.
    bit = item * int(width)
    word = start + (bit >> 6)
    shift = bit & 63
    value = words[word] >> np.uint64(shift)
    if shift + width > 64:
        value |= words[word + 1] << np.uint64(64 - shift)
    mask = (np.uint64(1) << np.uint64(width)) - np.uint64(1)
    return np.int64(value & mask)  # type: ignore[return-value]


@kernel
def unpack_draws(
    words: Words, starts: NDArray[np.int64], widths: NDArray[Any], out: NDArray[np.int32]
) -> None:
    """Codes (draw, item) of the draws that begin at `starts`."""
    for draw in range(out.shape[0]):
        for item in range(out.shape[1]):
            out[draw, item] = read_code(words, starts[draw], item, widths[draw])


@kernel
def unpack_item(
    words: Words, starts: NDArray[np.int64], widths: NDArray[Any], item: int, out: NDArray[np.int32]
) -> None:
    """The code of one item in every draw, without unpacking the others."""
    for draw in range(len(out)):
        out[draw] = read_code(words, starts[draw], item, widths[draw])
