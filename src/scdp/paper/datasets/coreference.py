"""Which names in a document mean the same: proper-noun mentions of GUM, one clustering a document."""

from __future__ import annotations

import re
import tarfile
import zlib
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from scdp.datasets.task import Labelled, Task
from scdp.errors import InputError
from scdp.paper.datasets.gum import Mention, mentions
from scdp.paper.datasets.locate import require
from scdp.paper.datasets.tables import read_text
from scdp.table.records import records_from

_SET = "gum-propn"
_MEMBER = re.compile(r"(?:.*/)?(GUM_([a-z]+)_[a-z0-9]+)\.conllu")


def load_coreference() -> Task:
    """Train on GUM's training documents, test on its dev and test documents, in six genres."""
    archive = require(_SET, "raw/gum_dep_conllu_6genres.tar.gz")
    parts = read_splits(require(_SET, "raw/splits.md"))
    found = [(doc, mention) for doc, text in read_documents(archive) for mention in mentions(text, doc)]
    whole = labelled_mentions(found, str(archive))
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


def labelled_mentions(found: list[tuple[str, Mention]], source: str) -> Labelled:
    """Mentions as a table; clusters are local to their document."""
    docs = [doc for doc, _ in found]
    columns: dict[str, list[str | None]] = {
        "name": [mention.name for _, mention in found],
        "span": [mention.span for _, mention in found],
        "head": [mention.head for _, mention in found],
        "etype": [mention.kind for _, mention in found],
        "genre": [doc.split("_")[1] for doc in docs],
        "doc": list(docs),
    }
    clusters = np.array([f"{doc}/{mention.group}" for doc, mention in found])
    ids = np.array([f"{doc}:{mention.first}-{mention.last}" for doc, mention in found])
    return Labelled(records_from(columns, source), clusters, ids, np.array(docs))
