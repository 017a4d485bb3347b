"""Cora references of Kearns, Schapire and Freund: `coraATDV.txt` enters, records or a task leave."""

from __future__ import annotations

import re
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from scdp.datasets.task import Labelled, Task
from scdp.errors import InputError
from scdp.paper.datasets.files import require
from scdp.paper.datasets.tables import read_text
from scdp.table.records import Records, records_from

FIELDS = ("author", "title", "date", "venue")
Author = Literal["Freund", "Kearns", "Schapire"]
_AUTHORS = ("Freund", "Kearns", "Schapire")
_TYPO, _MEANT = "druker1992", "drucker1992"
# Every field was written as one blank, words, one blank (or nothing), and the four were joined by a blank.
_FIELD = r"(?: (\S+(?: \S+)*) )?"
_TEXT = re.compile(" ".join([_FIELD] * 4))


def load_cora(merge_typo: bool = False) -> Labelled:
    """All 1916 references: 116 labels as in the file, 115 with `druker1992` merged into `drucker1992`."""
    path = require("cora-ksf-1916", "raw/coraATDV.txt")
    lines = read_text(path).rstrip("\n").split("\n")
    rows = [_parse(line, f"{path}, line {number}") for number, line in enumerate(lines, 1)]
    labels = [_MEANT if merge_typo and label == _TYPO else label for label, _ in rows]
    fields = zip(*(cells for _, cells in rows), strict=True)
    data = records_from(dict(zip(FIELDS, fields, strict=True)), str(path))
    return Labelled(data, np.array(labels), np.arange(len(rows)))


def _parse(line: str, place: str) -> tuple[str, tuple[str | None, ...]]:
    parts = line.split("\t")
    cells = _TEXT.fullmatch(parts[2]) if len(parts) == 3 else None
    if cells is None:
        raise InputError(
            f"{place}: expected relation, label and the four spaced fields, with tabs between them"
        )
    return parts[1], cells.groups()


def load_references(author: Author = "Freund", merge_typo: bool = True) -> Task:
    """Test on the papers of one author, train on the rest.

    A cluster is a paper of his when at least half of its records name him in the author or title text.
    """
    if author not in _AUTHORS:
        raise InputError(f"author {author!r} is not one of {', '.join(_AUTHORS)}")
    cora = load_cora(merge_typo)
    test = written_by(cora, author)
    note = f"Cora references (Kearns, Schapire, Freund), tested on the papers with {author} as an author"
    return Task(f"references-{author.lower()}", cora.take(~test), cora.take(test), note)


def written_by(cora: Labelled, author: str) -> NDArray[np.bool_]:
    """Which records belong to a cluster that names the author in at least half of its records."""
    assert isinstance(cora.data, Records)
    texts = zip(cora.data["author"], cora.data["title"], strict=True)
    named = np.array([author.lower() in f"{who} {what}".lower() for who, what in texts])
    _, cluster = np.unique(cora.clusters, return_inverse=True)
    share = np.bincount(cluster, weights=named) / np.bincount(cluster)
    return np.asarray(share[cluster] >= 0.5)
