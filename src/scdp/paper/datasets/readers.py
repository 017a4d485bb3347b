"""Readers of two raw formats: ACE's annotations of coreference, and R's data files.

APF counts characters of the source without its tags; `START` and `END` are both inside the span.

R. Only what data sets need is read: pairlists, symbols, logical, integer, real and character vectors, lists.
"""

from __future__ import annotations

import bz2
import gzip
import html
import lzma
import re
import struct
import zlib
from collections.abc import Callable
from dataclasses import dataclass, field
from os import PathLike
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import numpy as np

from scdp.datasets.generate import Labelled
from scdp.errors import InputError
from scdp.io.untrusted import read_bytes
from scdp.table.records import records_from

if TYPE_CHECKING:
    from collections.abc import Iterator
    from xml.etree.ElementTree import Element


_KINDS = {"PER": "person", "ORG": "organization", "GPE": "place", "LOC": "place", "FAC": "place"}
# The one declaration APF files carry: an external DTD, without anything of their own between brackets.
_DOCTYPE = re.compile(
    rb"""\A((?:\xef\xbb\xbf)?\s*(?:<\?xml[^<>]*\?>\s*)?)<!DOCTYPE\s+\w+\s+SYSTEM\s+(?:"[^"<>\[\]]*"|'[^'<>\[\]]*')\s*>"""
)
_TAG = re.compile(r"<[^<>]*>")
# Documents of ACE have some tens of kilobytes.
LARGEST_FILE = 16 << 20
LONGEST_OFFSET = 12


@dataclass(frozen=True, slots=True)
class AceMention:
    """A named mention; `entity` is the gold cluster, unique over documents."""

    id: str
    entity: str
    kind: str
    name: str
    span: str
    doc: str
    genre: str


def load_ace(folder: str | PathLike[str]) -> Labelled:
    """The proper-noun mentions of every document under `folder`, in the columns of `load_coreference`."""
    paths = sorted(Path(folder).rglob("*.apf.xml"))
    if not paths:
        raise InputError(f"{folder}: there is no .apf.xml file in this folder; give the folder of ACE's documents")
    found = [mention for path in paths for mention in read_document(path)]
    columns: dict[str, list[str | None]] = {
        "name": [mention.name for mention in found],
        "span": [mention.span for mention in found],
        "head": [mention.name.split()[-1] for mention in found],
        "etype": [mention.kind for mention in found],
        "genre": [mention.genre for mention in found],
        "doc": [mention.doc for mention in found],
    }
    clusters = np.array([mention.entity for mention in found], dtype=np.str_)
    ids = np.array([mention.id for mention in found], dtype=np.str_)
    docs = np.array([mention.doc for mention in found], dtype=np.str_)
    return Labelled(records_from(columns, str(folder)), clusters, ids, docs)


def read_document(apf: Path) -> list[AceMention]:
    """The mentions of type NAM of one document, checked against its source text."""
    root = _parse(apf)
    source = apf.with_name(apf.name.removesuffix(".apf.xml") + ".sgm")
    document = root.find("document")
    if document is None:
        raise InputError(f"{apf}: there is no <document> element; is this an APF file?")
    named = list(_named_mentions(document))
    text = _text_that_fits(source, [span for _, mention in named for span in mention.iter("charseq")], apf)
    doc, genre = _attribute(document, "DOCID", apf), root.get("SOURCE", "unknown")
    return [_mention(entity, mention, text, doc, genre, apf) for entity, mention in named]


def _named_mentions(document: Element) -> Iterator[tuple[Element, Element]]:
    for entity in document.findall("entity"):
        for mention in entity.findall("entity_mention"):
            if mention.get("TYPE") == "NAM":
                yield entity, mention


def _mention(entity: Element, mention: Element, text: str, doc: str, genre: str, apf: Path) -> AceMention:
    span = _words(text, _range(mention.find("extent/charseq"), apf))
    name = _words(text, _range(mention.find("head/charseq"), apf))
    kind = _attribute(entity, "TYPE", apf)
    id = _attribute(mention, "ID", apf)
    if not name:
        raise InputError(f"{apf}: the head of mention {id} is blank in the source")
    group = f"{doc}/{_attribute(entity, 'ID', apf)}"
    return AceMention(f"{doc}:{id}", group, _KINDS.get(kind, kind.lower()), name, span, doc, genre)


def _attribute(element: Element, name: str, apf: Path) -> str:
    value = element.get(name)
    if not value:
        raise InputError(f"{apf}: an element <{element.tag}> has no attribute {name}")
    return value


def _range(charseq: Element | None, apf: Path) -> tuple[int, int]:
    if charseq is None:
        raise InputError(f"{apf}: a named mention lacks the <charseq> of its extent or head")
    cells = [_attribute(charseq, name, apf) for name in ("START", "END")]
    if not all(cell.isascii() and cell.isdigit() and len(cell) <= LONGEST_OFFSET for cell in cells):
        raise InputError(f"{apf}: START {cells[0]!r:.40} and END {cells[1]!r:.40} must be character offsets")
    return int(cells[0]), int(cells[1]) + 1


def _words(text: str, between: tuple[int, int]) -> str:
    return " ".join(html.unescape(text[slice(*between)]).split())


def _text_that_fits(path: Path, spans: list[Element], apf: Path) -> str:
    """The source without tags, with `&amp;` as written or as one character: releases count it differently."""
    try:
        written = _TAG.sub("", read_bytes(path, LARGEST_FILE).decode("utf-8").replace("\r\n", "\n"))
        unescaped = html.unescape(written)
    # Python refuses to make a number of more than some thousand digits, as a character reference can have.
    except ValueError as error:
        raise InputError(f"{path}: the source text of {apf.name} cannot be read ({error})") from error
    for text in (written, unescaped):
        if all(_agrees(text, span, apf) for span in spans):
            return text
    wrong = next(span for span in spans if not _agrees(written, span, apf))
    raise InputError(
        f"{apf}: characters {wrong.get('START')} to {wrong.get('END')} of {path.name} are not {wrong.text!r};"
        " annotation and source do not belong together"
    )


def _agrees(text: str, span: Element, apf: Path) -> bool:
    first, end = _range(span, apf)
    expected = " ".join((span.text or "").split())
    return first < end <= len(text) and (not expected or _words(text, (first, end)) == expected)


def _parse(apf: Path) -> Element:
    from xml.etree.ElementTree import ParseError

    from defusedxml.common import DefusedXmlException
    from defusedxml.ElementTree import fromstring

    try:
        content = _DOCTYPE.sub(rb"\1", read_bytes(apf, LARGEST_FILE), count=1)
        root: Element = fromstring(content, forbid_dtd=True)
    except DefusedXmlException as error:
        raise InputError(
            f"{apf}: declares a document type or entities of its own, which are not read; remove them"
        ) from error
    except InputError:
        raise
    except (ParseError, ValueError, LookupError) as error:
        raise InputError(f"{apf}: is not readable XML ({error})") from error
    return root


_SYMBOL, _PAIRLIST, _CHARACTERS, _LOGICAL, _INTEGER, _REAL, _STRINGS, _LIST = 1, 2, 9, 10, 13, 14, 16, 19
_NIL, _REFERENCE = 254, 255
_HAS_ATTRIBUTES, _HAS_TAG = 1 << 9, 1 << 10
_MISSING_INTEGER = -(2**31)
_DEEPEST = 50
_LARGEST = 1 << 28


@dataclass(frozen=True)
class Vector:
    """An R vector: values (missing ones are None) and its attributes, such as names, levels and class."""

    values: list[Any]
    attributes: dict[str, Any] = field(default_factory=dict)


def read_rda(path: Path) -> dict[str, Any]:
    """The objects of an .rda file by name."""
    try:
        return _Reader(_unpack(path), str(path)).objects()
    except (OSError, EOFError, zlib.error, lzma.LZMAError) as error:
        raise InputError(f"{path}: cannot be unpacked ({error}); the file may be cut short") from error


def columns_of(frame: Vector, source: str) -> dict[str, list[str | None]]:
    """The columns of a data frame as text; whole numbers lose their point."""
    names = frame.attributes.get("names")
    if not isinstance(names, Vector) or len(names.values) != len(frame.values):
        raise InputError(f"{source}: the object is not a data frame with named columns")
    return {name: _texts(column, source) for name, column in zip(names.values, frame.values, strict=True)}


def _texts(column: Any, source: str) -> list[str | None]:
    if not isinstance(column, Vector):
        raise InputError(f"{source}: a column of the data frame is not a vector")
    levels = column.attributes.get("levels")
    if isinstance(levels, Vector):
        return [_level(levels.values, code, source) for code in column.values]
    return [None if value is None else _text(value) for value in column.values]


def _level(levels: list[Any], code: Any, source: str) -> str | None:
    if code is None:
        return None
    if not isinstance(code, int) or not 1 <= code <= len(levels):
        raise InputError(f"{source}: factor code {code} has no level")
    return levels[code - 1] or None


def _text(value: Any) -> str:
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)


def _unpack(path: Path) -> bytes:
    raw = path.read_bytes()
    openers: dict[bytes, Callable[[Path], IO[bytes] | gzip.GzipFile]] = {
        b"\x1f\x8b": gzip.open,
        b"BZ": bz2.open,
        b"\xfd7": lzma.open,
    }
    if raw[:2] not in openers:
        return raw
    with openers[raw[:2]](path) as stream:
        content = stream.read(_LARGEST + 1)
    if len(content) > _LARGEST:
        raise InputError(f"{path}: unpacks to more than {_LARGEST} bytes")
    return content


class _Reader:
    def __init__(self, content: bytes, source: str) -> None:
        self._content, self._source, self._at = content, source, 0
        self._symbols: list[str] = []

    def objects(self) -> dict[str, Any]:
        header = self._take(7)
        if header not in (b"RDX2\nX\n", b"RDX3\nX\n"):
            raise self._error("is not an R data file in XDR format")
        self._take(12)
        if header.startswith(b"RDX3"):
            self._take(self._length())
        found = self._item(0)
        if not isinstance(found, dict):
            raise self._error("does not hold named objects")
        return found

    def _item(self, depth: int) -> Any:
        if depth > _DEEPEST:
            raise self._error("is nested too deeply")
        flags = self._integer()
        kind = flags & 0xFF
        if kind == _PAIRLIST:
            return self._pairlist(flags, depth)
        if kind == _SYMBOL:
            self._symbols.append(self._item(depth + 1))
            return self._symbols[-1]
        if kind == _REFERENCE:
            return self._reference(flags >> 8)
        if kind == _CHARACTERS:
            return self._characters()
        if kind == _NIL:
            return None
        values = self._values(kind, depth)
        attributes = self._item(depth + 1) if flags & _HAS_ATTRIBUTES else None
        return Vector(values, attributes if isinstance(attributes, dict) else {})

    def _values(self, kind: int, depth: int) -> list[Any]:
        if kind in (_LOGICAL, _INTEGER):
            return [None if value == _MISSING_INTEGER else value for value in self._numbers("i", 4)]
        if kind == _REAL:
            return [None if value != value else value for value in self._numbers("d", 8)]
        if kind in (_STRINGS, _LIST):
            # An element takes at least four bytes, so a false length cannot ask for more than the file holds.
            return [self._item(depth + 1) for _ in range(self._length(4))]
        raise self._error(f"holds an R object of type {kind}, which is not read here")

    def _pairlist(self, flags: int, depth: int) -> dict[str, Any]:
        found: dict[str, Any] = {}
        while flags & 0xFF == _PAIRLIST:
            if flags & _HAS_ATTRIBUTES:
                self._item(depth + 1)
            tag = self._item(depth + 1) if flags & _HAS_TAG else None
            found[str(tag)] = self._item(depth + 1)
            flags = self._integer()
        if flags & 0xFF != _NIL:
            raise self._error("has a pairlist without an end")
        return found

    def _reference(self, index: int) -> str:
        index = index or self._integer()
        if not 1 <= index <= len(self._symbols):
            raise self._error("refers to a symbol it does not define")
        return self._symbols[index - 1]

    def _characters(self) -> str | None:
        length = self._integer()
        if length == -1:
            return None
        try:
            return self._take(length).decode("utf-8")
        except UnicodeDecodeError as error:
            raise self._error("holds text that is not UTF-8") from error

    def _numbers(self, code: str, width: int) -> tuple[Any, ...]:
        length = self._length(width)
        return struct.unpack(f">{length}{code}", self._take(length * width))

    def _length(self, width: int = 1) -> int:
        length = self._integer()
        if length < 0 or length * width > len(self._content) - self._at:
            raise self._error("is cut short")
        return length

    def _integer(self) -> int:
        value: int = struct.unpack(">i", self._take(4))[0]
        return value

    def _take(self, count: int) -> bytes:
        if count < 0 or self._at + count > len(self._content):
            raise self._error("is cut short")
        self._at += count
        return self._content[self._at - count : self._at]

    def _error(self, what: str) -> InputError:
        return InputError(f"{self._source} {what} (byte {self._at}): get the file again")
