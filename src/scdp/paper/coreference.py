"""Which names in a document mean the same: proper-noun mentions of GUM or of ACE, one clustering a document.

ACE's annotations (APF) count characters of the source without its tags; `START` and `END` are both inside the span.
"""

from __future__ import annotations

import html
import re
import tarfile
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from scdp.datasets import Labelled, Task
from scdp.errors import InputError
from scdp.io import read_bytes
from scdp.paper.files import read_text, require
from scdp.table import records_from

if TYPE_CHECKING:
    from xml.etree.ElementTree import Element


KINDS = ("person", "organization", "place")
# Lower-case words that may stand between two capitalised ones inside one name.
_PARTICLES = frozenset(
    {"al", "bin", "d'", "da", "de", "del", "della", "der", "di", "dos", "du"}
    | {"el", "ibn", "la", "le", "of", "the", "van", "von"}
)
BRIDGES = {
    "person": _PARTICLES - {"of"} | {"-"},
    "organization": _PARTICLES | {"&", "'", "'s", "’s", "-", "and", "for", "y"},
    "place": _PARTICLES | {"&", "'", "'s", "’s", "-", "–", "/"},
}
_CONTENT = frozenset({"ADJ", "ADV", "NOUN", "VERB", "X"})
_BRACKET = re.compile(r"\((?P<opened>[^()]+)(?P<at_once>\))?|(?P<closed>[^()]+)\)")


@dataclass(frozen=True, slots=True)
class Token:
    """A syntactic word; `head` is the position in the document of the word it hangs on, -1 for a root."""

    form: str
    upos: str
    head: int
    relation: str
    space_after: bool
    brackets: str


@dataclass(frozen=True, slots=True)
class Span:
    """An annotated entity: tokens `first` to `last`, both included."""

    first: int
    last: int
    group: str
    kind: str


@dataclass(frozen=True, slots=True)
class Mention:
    """A proper-noun mention ready for a table."""

    first: int
    last: int
    group: str
    kind: str
    name: str
    span: str
    head: str


def find_mentions(text: str, source: str) -> list[Mention]:
    """The kept mentions of one CoNLL-U document, in order of their first token, shorter spans first."""
    tokens = list(read_tokens(text, source))
    found = [
        _mention(tokens, span, head)
        for span in read_spans(tokens, source)
        if (head := _kept_head(tokens, span)) is not None
    ]
    return sorted(found, key=lambda mention: (mention.first, mention.last))


def read_tokens(text: str, source: str) -> Iterator[Token]:
    """The words of a document in order; multiword lines lend their spacing, empty nodes are passed over."""
    start, position, last_of_multiword, multiword_space = 0, 0, 0, True
    for number, line in enumerate(text.replace("\r\n", "\n").split("\n"), 1):
        if not line:
            start, last_of_multiword = position, 0
        if not line or line.startswith("#"):
            continue
        cells = line.split("\t")
        if len(cells) != 10:
            raise InputError(f"{source}, line {number}: {len(cells)} columns where CoNLL-U has 10")
        if "-" in cells[0]:
            last_of_multiword = _integer(cells[0].partition("-")[2], source, number)
            multiword_space = "SpaceAfter=No" not in cells[9]
        elif "." not in cells[0]:
            inside = _integer(cells[0], source, number)
            space = "SpaceAfter=No" not in cells[9]
            if inside <= last_of_multiword:
                space = multiword_space and inside == last_of_multiword
            head = _integer(cells[6], source, number)
            yield Token(cells[1], cells[3], start + head - 1 if head else -1, cells[7], space, _brackets(cells[9]))
            position += 1


def _integer(cell: str, source: str, number: int) -> int:
    if not cell.isascii() or not cell.isdigit():
        raise InputError(f"{source}, line {number}: {cell!r} stands where a token number is expected")
    return int(cell)


def _brackets(attributes: str) -> str:
    return next((part[7:] for part in attributes.split("|") if part.startswith("Entity=")), "")


def read_spans(tokens: list[Token], source: str) -> list[Span]:
    """Pair every opening bracket with the nearest later closing one of the same group."""
    spans: list[Span] = []
    open_spans: dict[str, list[tuple[int, str]]] = {}
    for position, token in enumerate(tokens):
        for bracket in _BRACKET.finditer(token.brackets):
            if bracket["opened"]:
                group, kind = _group_and_kind(bracket["opened"], source, position)
                open_spans.setdefault(group, []).append((position, kind))
            if bracket["closed"] or bracket["at_once"]:
                group = bracket["closed"] or group
                if not open_spans.get(group):
                    raise InputError(f"{source}, token {position}: entity {group} is closed but was never opened")
                first, kind = open_spans[group].pop()
                spans.append(Span(first, position, group, kind))
    left = [group for group, starts in open_spans.items() if starts]
    if left:
        raise InputError(f"{source}: entity {left[0]} is opened but never closed; the file may be cut short")
    return spans


def _group_and_kind(body: str, source: str, position: int) -> tuple[str, str]:
    parts = body.split("-")
    if len(parts) < 2:
        raise InputError(f"{source}, token {position}: entity {body!r} has no type")
    return parts[0], parts[1]


def _kept_head(tokens: list[Token], span: Span) -> int | None:
    if span.kind not in KINDS:
        return None
    head = head_of(tokens, span)
    if tokens[head].upos != "PROPN":
        return None
    return None if span.kind == "person" and _is_coordination(tokens, span, head) else head


def head_of(tokens: list[Token], span: Span) -> int:
    """The first token of the span whose syntactic head lies outside it."""
    inside = range(span.first, span.last + 1)
    return next((i for i in inside if tokens[i].head not in inside), span.first)


def _is_coordination(tokens: list[Token], span: Span, head: int) -> bool:
    inside = tokens[span.first : span.last + 1]
    return any(token.head == head and token.relation == "conj" for token in inside)


def _mention(tokens: list[Token], span: Span, head: int) -> Mention:
    first, last = name_range(tokens, span, head)
    name, whole = _text(tokens, first, last), _text(tokens, span.first, span.last)
    return Mention(span.first, span.last, span.group, span.kind, name, whole, tokens[head].form)


def name_range(tokens: list[Token], span: Span, head: int) -> tuple[int, int]:
    """The run of name-like tokens round the head, across bridging words with such a token behind them."""
    bridges = BRIDGES[span.kind]
    return _reach(tokens, head, span.first, -1, bridges), _reach(tokens, head, span.last, 1, bridges)


def _reach(tokens: list[Token], head: int, limit: int, step: int, bridges: frozenset[str]) -> int:
    reached = head
    for position in range(head + step, limit + step, step):
        token = tokens[position]
        numeral = step > 0 and token.upos == "NUM" and position == reached + 1
        if numeral or _is_name_like(token):
            reached = position
        elif token.form.lower() not in bridges:
            break
    return reached


def _is_name_like(token: Token) -> bool:
    return token.upos == "PROPN" or (token.form[:1].isupper() and token.upos in _CONTENT)


def _text(tokens: list[Token], first: int, last: int) -> str:
    pieces = [token.form + " " * token.space_after for token in tokens[first : last + 1]]
    return "".join(pieces).strip()


_SET = "gum-propn"
_MEMBER = re.compile(r"(?:.*/)?(GUM_([a-z]+)_[a-z0-9]+)\.conllu")


def load_coreference() -> Task:
    """Train on GUM's training documents, test on its dev and test documents, in six genres."""
    archive = require(_SET, "raw/gum_dep_conllu_6genres.tar.gz")
    parts = read_splits(require(_SET, "raw/splits.md"))
    found = [(doc, mention) for doc, text in read_documents(archive) for mention in find_mentions(text, doc)]
    whole = label_mentions(found, str(archive))
    assert whole.groups is not None
    unknown = sorted(set(whole.groups.tolist()) - set(parts))
    if unknown:
        raise InputError(f"{archive}: document {unknown[0]} is in no part of splits.md")
    test = np.array([parts[doc] != "train" for doc in whole.groups.tolist()])
    note = "Proper-noun mentions of GUM (six genres); stands in for ACE 2004, which is not free"
    return Task("coreference", whole.take(~test), whole.take(test), note)


def read_splits(path: Path) -> dict[str, str]:
    """Document to part, from the headings and bullet points of splits.md."""
    parts, part = {}, ""
    for line in read_text(path).splitlines():
        if line.startswith("## "):
            part = line[3:].strip()
        elif line.lstrip().startswith("* "):
            parts[line.strip()[2:].strip()] = part
    if not parts:
        raise InputError(f"{path}: expected headings (## train) with a bullet point for each document")
    return parts


def read_documents(archive: Path) -> Iterator[tuple[str, str]]:
    """Name and text of each document, by name; the archive is read in memory and never unpacked to disk."""
    try:
        with tarfile.open(archive, "r:gz") as tar:
            for member in sorted(tar.getmembers(), key=lambda member: member.name):
                name = _MEMBER.fullmatch(member.name)
                content = tar.extractfile(member) if name and member.isfile() else None
                if name and content:
                    yield name[1], content.read().decode("utf-8")
    except (tarfile.TarError, OSError, EOFError, zlib.error, UnicodeDecodeError) as error:
        raise InputError(f"{archive}: cannot be unpacked ({error}); get the file again") from error


def label_mentions(found: list[tuple[str, Mention]], source: str) -> Labelled:
    """Mentions as a table; clusters are local to their document."""
    rows = []
    for doc, one in found:
        id, genre = f"{doc}:{one.first}-{one.last}", doc.split("_")[1]
        rows.append((id, f"{doc}/{one.group}", one.name, one.span, one.head, one.kind, genre, doc))
    return make_table(rows, source)


# A mention for a table: its id, its cluster, and these cells.
Row = tuple[str, ...]
COLUMNS = ("name", "span", "head", "etype", "genre", "doc")


def make_table(rows: Sequence[Row], source: str) -> Labelled:
    """Ids, clusters and cells of mentions as labelled records, one clustering a document."""
    ids, clusters, *cells = zip(*rows, strict=True) if rows else [()] * (2 + len(COLUMNS))
    columns = dict(zip(COLUMNS, map(list, cells), strict=True))
    labels, names, docs = (np.array(each, dtype=np.str_) for each in (clusters, ids, columns["doc"]))
    return Labelled(records_from(columns, source), labels, names, docs)


_KINDS = {"PER": "person", "ORG": "organization", "GPE": "place", "LOC": "place", "FAC": "place"}
# The one declaration APF files carry: an external DTD, without anything of their own between brackets.
_DOCTYPE = re.compile(
    rb"""\A((?:\xef\xbb\xbf)?\s*(?:<\?xml[^<>]*\?>\s*)?)<!DOCTYPE\s+\w+\s+SYSTEM\s+(?:"[^"<>\[\]]*"|'[^'<>\[\]]*')\s*>"""
)
_TAG = re.compile(r"<[^<>]*>")
# Documents of ACE have some tens of kilobytes.
LARGEST_FILE = 16 << 20
LONGEST_OFFSET = 12


def load_ace(folder: str | PathLike[str]) -> Labelled:
    """The proper-noun mentions of every document under `folder`, in the columns of `load_coreference`."""
    paths = sorted(Path(folder).rglob("*.apf.xml"))
    if not paths:
        raise InputError(f"{folder}: there is no .apf.xml file in this folder; give the folder of ACE's documents")
    return make_table([row for path in paths for row in read_document(path)], str(folder))


def read_document(apf: Path) -> list[Row]:
    """The mentions of type NAM of one document, checked against its source text."""
    root = _parse_apf(apf)
    source = apf.with_name(apf.name.removesuffix(".apf.xml") + ".sgm")
    document = root.find("document")
    if document is None:
        raise InputError(f"{apf}: there is no <document> element; is this an APF file?")
    named = list(_list_named_mentions(document))
    text = _text_that_fits(source, [span for _, mention in named for span in mention.iter("charseq")], apf)
    doc, genre = _attribute(document, "DOCID", apf), root.get("SOURCE", "unknown")
    return [_ace_mention(entity, mention, text, doc, genre, apf) for entity, mention in named]


def _list_named_mentions(document: Element) -> Iterator[tuple[Element, Element]]:
    for entity in document.findall("entity"):
        for mention in entity.findall("entity_mention"):
            if mention.get("TYPE") == "NAM":
                yield entity, mention


def _ace_mention(entity: Element, mention: Element, text: str, doc: str, genre: str, apf: Path) -> Row:
    span = _words(text, _range(mention.find("extent/charseq"), apf))
    name = _words(text, _range(mention.find("head/charseq"), apf))
    kind = _attribute(entity, "TYPE", apf)
    id = _attribute(mention, "ID", apf)
    if not name:
        raise InputError(f"{apf}: the head of mention {id} is blank in the source")
    group = f"{doc}/{_attribute(entity, 'ID', apf)}"
    return f"{doc}:{id}", group, name, span, name.split()[-1], _KINDS.get(kind, kind.lower()), genre, doc


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


def _parse_apf(apf: Path) -> Element:
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
