"""The reader of R data: a file written here by hand, every way of cutting it, and objects that lie."""

from __future__ import annotations

import bz2
import gzip
import lzma
import struct

import pytest

from scdp.errors import InputError
from scdp.paper.files import Vector, columns_of, read_rda

NIL = struct.pack(">i", 254)


def text(value: str | None) -> bytes:
    if value is None:
        return struct.pack(">ii", 9, -1)
    return struct.pack(">ii", 0x40009, len(value.encode())) + value.encode()


def symbol(name: str) -> bytes:
    return struct.pack(">i", 1) + text(name)


def strings(*values: str | None) -> bytes:
    return struct.pack(">ii", 16, len(values)) + b"".join(map(text, values))


def pairs(*items: tuple[bytes, bytes]) -> bytes:
    return b"".join(struct.pack(">i", 0x402) + tag + value for tag, value in items) + NIL


def integers(*values: int, attributes: bytes = b"") -> bytes:
    return struct.pack(f">ii{len(values)}i", 13 | (0x200 if attributes else 0), len(values), *values) + attributes


def reals(*values: float) -> bytes:
    return struct.pack(f">ii{len(values)}d", 14, len(values), *values)


def frame() -> bytes:
    factor = integers(2, 1, -(2**31), attributes=pairs((symbol("levels"), strings("ANN", "BO"))))
    names = pairs((symbol("names"), strings("name", "year", "note", "size")))
    columns = factor + reals(1949, 1.5, float("nan")) + strings("x", None, "z") + integers(1, 2, 3)
    return struct.pack(">ii", 19 | 0x200, 4) + columns + names


def rda3(*items: tuple[bytes, bytes]) -> bytes:
    return b"RDX3\nX\n" + struct.pack(">iiii", 3, 0, 0, 5) + b"UTF-8" + pairs(*items)


CONTENT = rda3((symbol("people"), frame()), (symbol("identity"), reals(1, 2, 2)))
COLUMNS = {
    "name": ["BO", "ANN", None],
    "year": ["1949", "1.5", None],
    "note": ["x", None, "z"],
    "size": ["1", "2", "3"],
}


def write(tmp_path, content):
    place = tmp_path / "people.rda"
    place.write_bytes(content)
    return place


@pytest.mark.parametrize("pack", [gzip.compress, bz2.compress, lzma.compress, bytes])
def test_a_data_frame_and_a_vector(tmp_path, pack):
    objects = read_rda(write(tmp_path, pack(CONTENT)))
    assert list(objects) == ["people", "identity"]
    assert objects["identity"] == Vector([1.0, 2.0, 2.0])
    assert columns_of(objects["people"], "people.rda") == COLUMNS


def test_format_2_and_references_to_symbols(tmp_path):
    again = struct.pack(">i", 255 | 1 << 8)
    content = (
        b"RDX2\nX\n"
        + struct.pack(">iii", 2, 0, 0)
        + pairs((symbol("v"), integers(4, attributes=pairs((again, strings("kept"))))))
    )
    assert read_rda(write(tmp_path, content)) == {"v": Vector([4], {"v": Vector(["kept"])})}


def test_every_truncation_is_an_input_error(tmp_path):
    for length in range(len(CONTENT)):
        with pytest.raises(InputError, match=r"people\.rda"):
            read_rda(write(tmp_path, CONTENT[:length]))


def test_a_file_that_unpacks_without_end_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr("scdp.paper.files._LARGEST", len(CONTENT) - 1)
    with pytest.raises(InputError, match="unpacks to more than"):
        read_rda(write(tmp_path, gzip.compress(CONTENT)))


def test_a_truncated_gzip_is_an_input_error(tmp_path):
    packed = gzip.compress(CONTENT)
    for length in range(2, len(packed)):
        with pytest.raises(InputError, match="cut short"):
            read_rda(write(tmp_path, packed[:length]))


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (struct.pack(">ii", 13, 2**31 - 1), "cut short"),
        (struct.pack(">ii", 19, -1), "cut short"),
        (struct.pack(">i", 24) + b"\0" * 8, "type 24"),
        (struct.pack(">ii", 19, 1) * 60, "nested too deeply"),
        (struct.pack(">i", 255 | 9 << 8), "does not define"),
        (struct.pack(">iii", 16, 1, 9) + struct.pack(">i", 1) + b"\xff" + b"\0" * 9, "not UTF-8"),
    ],
)
def test_objects_that_lie_are_refused(tmp_path, value, message):
    with pytest.raises(InputError, match=message):
        read_rda(write(tmp_path, rda3((symbol("v"), value))))


def test_an_object_that_is_no_data_frame_is_refused():
    with pytest.raises(InputError, match="not a data frame"):
        columns_of(Vector([Vector([1])]), "f")
    names = {"names": Vector(["a"])}
    with pytest.raises(InputError, match="not a vector"):
        columns_of(Vector([None], names), "f")
    with pytest.raises(InputError, match="factor code 3"):
        columns_of(Vector([Vector([3], {"levels": Vector(["A"])})], names), "f")


def test_nothing_but_xdr_is_read(tmp_path):
    with pytest.raises(InputError, match="XDR"):
        read_rda(write(tmp_path, b"RDA3\nA\n" + b"\0" * 30))
    with pytest.raises(InputError, match="named objects"):
        read_rda(write(tmp_path, b"RDX2\nX\n" + b"\0" * 12 + reals(1)))
