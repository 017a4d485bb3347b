"""ACE 2004: a folder of APF annotation (.apf.xml) beside its sources (.sgm) enters, named mentions leave.

APF counts characters of the source without its tags; `START` and `END` are both inside the span.
"""

from __future__ import annotations

import html
import re
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING

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
        raise InputError(
            f"{folder}: there is no .apf.xml file in this folder; give the folder of ACE's documents"
        )
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
