"""Files that are kept between runs: words and arrays enter, an .npz leaves, whole or not at all, with a checksum.

It is read without pickle and never through a link; a truncated or altered file is found out and raises `Damaged`. Of
stored words and arrays those that belong there leave by name, and others are refused.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from hashlib import blake2b
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scdp._typing import Arrays
from scdp.errors import InputError
from scdp.io import parse_json, read_arrays
from scdp.io.atomic import Staged

Words = dict[str, Any]
ABOUT, CHECKSUM = "about", "checksum"


class Damaged(Exception):
    """The file is not what was once written."""


def write_sealed(path: Path, about: Words, arrays: Mapping[str, NDArray[Any]]) -> None:
    """Write beside the target, have the disk keep it, then rename."""
    text = json.dumps(about).encode()
    members: dict[str, Any] = {**arrays, ABOUT: np.frombuffer(text, np.uint8)}
    members[CHECKSUM] = np.frombuffer(bytes.fromhex(sum_arrays(members)), np.uint8)

    def save(part: Path) -> None:
        with part.open("wb") as file:
            np.savez(file, allow_pickle=False, **members)

    with Staged() as staged:
        staged.write(path, save)


def read_sealed(path: Path) -> tuple[Words, Arrays]:
    """Words and arrays, checked against the checksum."""
    try:
        members = read_arrays(path, follow=False)
        expected = members.pop(CHECKSUM).tobytes().hex()
        if sum_arrays(members) != expected:
            raise Damaged(f"{path}: its checksum is another")
        about = parse_json(members.pop(ABOUT).tobytes().decode())
    except (KeyError, ValueError) as error:
        raise Damaged(f"{path}: cannot be read ({error})") from error
    if not isinstance(about, dict):
        raise Damaged(f"{path}: has no words")
    return about, members


def sum_arrays(arrays: Mapping[str, NDArray[Any]]) -> str:
    """A sum over names, kinds, shapes and values, in any order of the names."""
    total = blake2b(digest_size=32)
    for name in sorted(arrays):
        array = np.ascontiguousarray(arrays[name])
        total.update(f"{name} {array.dtype.str} {array.shape} ".encode())
        total.update(array.reshape(-1).view(np.uint8).data if array.size else b"")
    return total.hexdigest()


PlainParts = dict[str, Any]


def part(parts: Mapping[str, Any], name: str) -> Any:
    """A stored part that must be there."""
    if name not in parts:
        raise InputError(f"{name!r} is missing")
    return parts[name]


def array_part(
    arrays: Mapping[str, NDArray[Any]], name: str, shape: tuple[int | None, ...], kinds: str = "f"
) -> NDArray[Any]:
    """A stored array of the given shape (None = any length) and kind of numbers."""
    array: NDArray[Any] = part(arrays, name)
    fits = len(shape) == array.ndim and all(
        wanted in (None, length) for wanted, length in zip(shape, array.shape, strict=True)
    )
    if not fits:
        wanted = ", ".join("any" if length is None else str(length) for length in shape)
        raise InputError(f"{name!r} has shape {array.shape}, and it should be ({wanted})")
    if array.dtype.kind not in kinds:
        raise InputError(f"{name!r} holds {array.dtype}, which is not what belongs there")
    if array.dtype.kind == "f" and not np.isfinite(array).all() and "nan" not in kinds:
        raise InputError(f"{name!r} holds a number that is not finite")
    return array
