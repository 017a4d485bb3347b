"""Loaders of tables: files of records or of handwritten digits enter, labelled items or a task leave."""

from __future__ import annotations

import gzip
import re
import zlib
from collections.abc import Callable
from functools import cache
from os import PathLike
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from scdp.datasets import Labelled, Task
from scdp.errors import InputError
from scdp.paper.coreference import load_ace, load_coreference
from scdp.paper.files import NAMES, Source, Vector, columns_of, find, find_source, read_rda, read_text, require
from scdp.table import Column, Records, complete_column, records_from, unique_ids
from scdp.table.readers import read_records

TRAIN_DIGITS = (1, 3, 5, 8, 9)
TEST_DIGITS = (0, 2, 4, 6, 7)
SMALLEST_CLASS, LARGEST_CLASS = 30, 300
SMALLEST_PART, LARGEST_PART = 600, 730
_FILES = ("zip.train.gz", "zip.test.gz")
# What `raw` multiplies unit-variance pixels by: of all scales tried, the one that gives the most rows of the paper's
# Table 1 (docs/results.md). The features are then large beside the prior on means, as grey values would be.
RAW_SCALE = 10.0

Array = NDArray[np.float64]


def load_usps() -> Labelled:
    """All 9298 images, 256 grey values in [-1, 1] each (16 x 16, row by row); clusters are the digits."""
    rows = np.vstack([_read(require("usps", name)) for name in _FILES])
    return Labelled(rows[:, 1:], rows[:, 0].astype(np.int64), np.arange(len(rows)))


# A run draws its images many times from the same two files.
@cache
def _read(path: Path) -> Array:
    try:
        with gzip.open(path, "rt", encoding="ascii") as lines:
            rows = np.loadtxt(lines, dtype=np.float64, ndmin=2)
    except (OSError, EOFError, zlib.error, ValueError) as error:
        raise InputError(f"{path}: cannot be read ({error}); get the file again") from error
    if rows.shape[1] != 257 or not np.isin(rows[:, 0], range(10)).all():
        raise InputError(f"{path}: expected lines of a digit and 256 grey values")
    return rows


def load_digits_task(seed: int = 0, image_size: int = 8, fallback: bool = False, features: str = "unit") -> Task:
    """Train on the digits 1 3 5 8 9, test on 0 2 4 6 7, with 30 to 300 images of each digit.

    The size of each class is log-uniform in 30..300, and the five sizes of a part are drawn again until they
    add up to 600..730; all draws depend on `seed` alone, and the paper's test set has 665 images. Images
    become `image_size` x `image_size` by block means, and every pixel is centred over training and test images
    together. "unit" features are then scaled to unit variance (a pixel that never changes stays 0), "raw" ones
    to ten times that: the scale that the paper's numbers imply, found after the fact.

    `fallback=True` never fetches: where USPS is not on this machine, it takes scikit-learn's bundled digits.
    """
    if seed < 0:
        raise InputError(f"seed {seed} must not be negative")
    use_bundled = fallback and not _usps_is_here()
    images = _load_bundled() if use_bundled else load_usps()
    pixels = shrink(np.asarray(images.data), image_size)
    train = draw_rows(np.random.default_rng([seed, 0]), images.clusters, TRAIN_DIGITS)
    test = draw_rows(np.random.default_rng([seed, 1]), images.clusters, TEST_DIGITS)
    chosen = pixels[np.concatenate([train, test])]
    scaled = (RAW_SCALE if features == "raw" else 1.0) * standardize_pixels(chosen)
    note = (
        "The digits bundled with scikit-learn, in place of USPS, which is not on this machine"
        if use_bundled
        else "USPS handwritten digits"
    )
    return Task(
        "digits",
        Labelled(scaled[: len(train)], images.clusters[train], images.ids[train]),
        Labelled(scaled[len(train) :], images.clusters[test], images.ids[test]),
        f"{note}; {image_size} x {image_size}, {features} features, seed {seed}",
    )


def _usps_is_here() -> bool:
    source = find_source("usps")
    return all(find(source, source.file(name)) for name in _FILES)


def _load_bundled() -> Labelled:
    from sklearn.datasets import load_digits

    pixels, digits = load_digits(return_X_y=True)
    return Labelled(np.asarray(pixels, dtype=np.float64), digits.astype(np.int64), np.arange(len(digits)))


def shrink(pixels: Array, image_size: int) -> Array:
    """Square images, one a row, brought to `image_size` by the means of equal blocks."""
    side = round(pixels.shape[1] ** 0.5)
    if image_size < 1 or side % image_size:
        raise InputError(f"image_size {image_size} does not divide {side}, the side of these images")
    block = side // image_size
    return pixels.reshape(-1, image_size, block, image_size, block).mean(axis=(2, 4)).reshape(len(pixels), -1)


def draw_sizes(generator: np.random.Generator, available: NDArray[np.int64]) -> NDArray[np.int64]:
    """Log-uniform class sizes, never more than there are, whose sum is that of a part."""
    while True:
        drawn = generator.uniform(np.log(SMALLEST_CLASS), np.log(LARGEST_CLASS), len(available))
        sizes = np.minimum(np.exp(drawn).round().astype(np.int64), available)
        if SMALLEST_PART <= sizes.sum() <= LARGEST_PART:
            return sizes


def draw_rows(generator: np.random.Generator, digits: NDArray[np.int64], wanted: tuple[int, ...]) -> NDArray[np.int64]:
    """Rows of the wanted digits, in file order."""
    rows = [np.flatnonzero(digits == digit) for digit in wanted]
    sizes = draw_sizes(generator, np.array([len(of_digit) for of_digit in rows]))
    chosen = [generator.choice(own, size, replace=False) for own, size in zip(rows, sizes, strict=True)]
    return np.sort(np.concatenate(chosen))


def standardize_pixels(pixels: Array) -> Array:
    """Mean 0 and variance 1 in each column, 0 where a column is constant."""
    spread = pixels.std(axis=0)
    constant = np.ptp(pixels, axis=0) == 0
    return np.where(constant, 0.0, (pixels - pixels.mean(axis=0)) / np.where(constant, 1.0, spread))


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
        raise InputError(f"{place}: expected relation, label and the four spaced fields, with tabs between them")
    return parts[1], cells.groups()


def load_references(author: Author = "Freund", merge_typo: bool = True) -> Task:
    """Test on the papers of one author, train on the rest.

    A cluster is a paper of his when at least half of its records name him in the author or title text.
    """
    if author not in _AUTHORS:
        raise InputError(f"author {author!r} is not one of {', '.join(_AUTHORS)}")
    cora = load_cora(merge_typo)
    test = is_written_by(cora, author)
    note = f"Cora references (Kearns, Schapire, Freund), tested on the papers with {author} as an author"
    return Task(f"references-{author.lower()}", cora.take(~test), cora.take(test), note)


def is_written_by(cora: Labelled, author: str) -> NDArray[np.bool_]:
    """Which records belong to a cluster that names the author in at least half of its records."""
    assert isinstance(cora.data, Records)
    texts = zip(cora.data["author"], cora.data["title"], strict=True)
    named = np.array([author.lower() in f"{who} {what}".lower() for who, what in texts])
    _, cluster = np.unique(cora.clusters, return_inverse=True)
    share = np.bincount(cluster, weights=named) / np.bincount(cluster)
    return np.asarray(share[cluster] >= 0.5)


def label_records(records: Records, entity: str, id: str | None = None, group: str | None = None) -> Labelled:
    """Split off the columns of the gold cluster and the identifier; a group column stays in the data."""
    data = drop_columns(records, *([entity] if id is None else [entity, id]))
    ids = np.arange(len(records)) if id is None else _texts(unique_ids(records, id))
    groups = None if group is None else _texts(complete_column(records, group))
    return Labelled(data, _texts(complete_column(records, entity)), ids, groups)


def drop_columns(records: Records, *names: str) -> Records:
    """The same records, some columns fewer."""
    columns = {name: records[name] for name in records.names if name not in names}
    return Records(columns, records.source, records.row_numbers)


def strip_cells(records: Records) -> Records:
    """The same records without blanks round their cells, for files that write them after every comma."""
    columns = {name: [cell and cell.strip() for cell in records[name]] for name in records.names}
    return Records(records_from(columns).columns, records.source, records.row_numbers)


def _texts(column: NDArray[np.object_]) -> NDArray[Any]:
    return np.array(column.tolist(), dtype=np.str_)


_HISTORICAL = {"5k": "historical_5k.csv", "50k": "historical_figures_with_errors_50k.parquet"}


def load_records(path: str | PathLike[str], entity: str, id: str | None = None, group: str | None = None) -> Labelled:
    """Read CSV, Parquet or JSON lines; `entity` names the column of gold clusters, `id` that of ids."""
    return label_records(read_records(Path(path)), entity, id, group)


def load_restaurant() -> Labelled:
    """864 restaurants of two guides, 752 places."""
    path = require("restaurant", "raw/restaurant.csv")
    found = label_records(strip_cells(read_records(path)), entity="class", id="id")
    # The file puts this column in single quotes, though all others are in double ones.
    clusters = np.array([label.strip("'") for label in found.clusters])
    return Labelled(found.data, clusters, found.ids)


def load_febrl3() -> Labelled:
    """5000 synthetic Australian persons, 2000 originals with up to five corrupted copies."""
    path = require("febrl3", "raw/dataset3.csv")
    found = label_records(strip_cells(read_records(path)), entity="rec_id", id="rec_id")
    clusters = np.array([_number_of(str(id), str(path)) for id in found.ids])
    return Labelled(found.data, clusters, found.ids)


def _number_of(id: str, source: str) -> str:
    parts = id.split("-")
    if len(parts) < 3 or parts[0] != "rec":
        raise InputError(f"{source}: record id {id!r} is not of the form rec-NUMBER-org or rec-NUMBER-dup-COPY")
    return parts[1]


def load_rldata500() -> Labelled:
    """500 synthetic German persons, 50 of them twice."""
    path = require("rldata500", "raw/RLdata500.rda")
    objects = read_rda(path)
    frame, identity = objects.get("RLdata500"), objects.get("identity.RLdata500")
    if not isinstance(frame, Vector) or not isinstance(identity, Vector):
        raise InputError(f"{path}: expected the objects RLdata500 and identity.RLdata500")
    data = records_from(columns_of(frame, str(path)), str(path))
    numbers = [value for value in identity.values if isinstance(value, float) and value.is_integer()]
    clusters = [number for number in numbers if abs(number) < 2**31]
    if len(clusters) != len(data):
        raise InputError(f"{path}: {len(data)} records but {len(clusters)} with an identity; get the file again")
    return Labelled(data, np.array(clusters, dtype=np.int64), np.arange(1, len(data) + 1))


def load_historical(sample: Literal["5k", "50k"] = "5k") -> Labelled:
    """Historical figures with synthetic errors: 5005 records of 479 persons, or all 50578 of 5156."""
    if sample not in _HISTORICAL:
        raise InputError(f"sample {sample!r} is not one of {', '.join(_HISTORICAL)}")
    return load_records(require("historical-50k", _HISTORICAL[sample]), entity="cluster", id="unique_id")


def load_fake_1000() -> Labelled:
    """1000 made-up persons, 251 entities."""
    return load_records(require("splink-fake-1000", "fake_1000.csv"), entity="cluster", id="unique_id")


def load_identity() -> Task:
    """A sample of the size of the paper's: 1004 mentions of 232 persons to train, 381 of 96 to test."""
    records = read_records(require("acl-authors", "acl_authors_1400.csv"))
    test = np.array(records["part"] == "test")
    whole = label_records(drop_columns(records, "part"), entity="cluster_id", id="record_id")
    note = "Author mentions of the ACL Anthology; stands in for the researchers of the paper's identity task"
    return Task("identity", whole.take(~test), whole.take(test), note)


def load_identity_full() -> Labelled:
    """Every mention whose name could be another person's: 18011 mentions of 4553 persons."""
    records = read_records(require("acl-authors", "acl_authors_full.csv.gz"))
    return label_records(records, entity="cluster_id", id="record_id")


# What can be exported, and the loader of each. Images are no records.
LOADERS: dict[str, Callable[[], Labelled | Task]] = {
    "identity": load_identity,
    "references": load_references,
    "coreference": load_coreference,
    "cora": load_cora,
    "restaurant": load_restaurant,
    "febrl3": load_febrl3,
    "rldata500": load_rldata500,
    "historical": load_historical,
    "fake-1000": load_fake_1000,
}
OWN = "ace"


def list_sets() -> tuple[str, ...]:
    """The sets that can be exported here: their files are there, or have a public copy."""
    there = ", ".join(source.loaders for source in map(find_source, NAMES) if _can_be_had(source)).split(", ")
    return tuple(name for name, loader in LOADERS.items() if loader.__name__ in there)


def _can_be_had(source: Source) -> bool:
    return all(file.url is not None or find(source, file) is not None for file in source.files)


def export_parts(name: str, folder: Path | None = None) -> dict[str, dict[str, Column]]:
    """By file name, the columns of each part: a task has train and test, any other set is one table.

    `folder` is that of your own copy of ACE 2004, which is not free.
    """
    if (name == OWN) != (folder is not None):
        raise InputError(f"{OWN!r} is read from a folder of your own, and no other set: name it with --from")
    if folder is not None:
        return {"records": _columns(load_ace(folder))}
    if name not in LOADERS:
        raise InputError(f"there is no set of records {name!r} to export; there are: {', '.join(LOADERS)}")
    loaded = LOADERS[name]()
    if isinstance(loaded, Task):
        return {"train": _columns(loaded.train), "test": _columns(loaded.test)}
    return {"records": _columns(loaded)}


def _columns(part: Labelled) -> dict[str, Column]:
    assert isinstance(part.data, Records)
    first = {"id": part.ids, "entity": part.clusters}
    columns = {key: np.array([str(value) for value in values], dtype=object) for key, values in first.items()}
    # A column of that name would be taken for the id or the answer.
    for column in part.data.names:
        columns[f"{column}_given" if column in first else column] = part.data[column]
    return columns
