"""`scdp datasets`: which data sets there are, where their files lie, and fetching the missing ones."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from scdp.cli.options import json_option
from scdp.errors import DataNotFoundError, InputError
from scdp.paper.datasets import files
from scdp.paper.datasets.files import NAMES, File, Source, find_source

_HEADER = ("name", "records", "clusters", "licence", "where")
_NUMERIC = ("records", "clusters")


@click.group()
def datasets() -> None:
    """List, find and fetch the data sets that scdp can load."""


@datasets.command("list")
@json_option
def list_sets(as_json: bool) -> None:
    """Show every data set, its size and licence, and the folder it was found in."""
    rows = [_row(find_source(name)) for name in NAMES]
    if as_json:
        click.echo(json.dumps([dict(zip(_HEADER, row, strict=True)) for row in rows], indent=1))
        return
    click.echo("\n".join(aligned([_HEADER, *rows])))


@datasets.command()
@click.argument("name")
@click.option("--check", is_flag=True, help="Compare each file with its published SHA-256.")
def path(name: str, check: bool) -> None:
    """Show where the files of the data set NAME lie."""
    source = find_source(name)
    wrong = [file.path for file in source.files if not _show(source, file, check)]
    if wrong:
        raise DataNotFoundError(
            f"{name}: {', '.join(wrong)} missing or damaged; get it with  scdp datasets fetch {name}"
        )


@datasets.command()
@click.argument("name", metavar="NAME|all")
def fetch(name: str) -> None:
    """Fetch the missing files of the data set NAME, or of all of them, into the cache."""
    sources = [find_source(each) for each in (NAMES if name == "all" else [name])]
    failures = [reason for source in sources for file in source.files if (reason := _fetch(source, file))]
    if len(failures) == 1:
        raise DataNotFoundError(failures[0])
    if failures:
        raise DataNotFoundError(f"{len(failures)} files could not be fetched; first: {failures[0]}")


@datasets.command()
@click.argument("name")
@click.option("--out", "folder", required=True, type=click.Path(path_type=Path), metavar="DIR")
@click.option(
    "--from",
    "own",
    type=click.Path(path_type=Path),
    metavar="DIR",
    help="Folder of your own ACE 2004, for  ace.",
)
@click.option(
    "--records",
    "n_records",
    type=click.IntRange(20, 50_000_000),
    metavar="N",
    help="How many, of a table that is made up.  [default: 300]",
)
@click.option("--force", is_flag=True, help="Replace files that are there.")
def export(name: str, folder: Path, own: Path | None, n_records: int | None, force: bool) -> None:
    """Write the records of NAME as CSV files.

    people, citations and crm are made up here, offline, for the tutorials: tables with known groups, new records,
    two tables to link, and the truth in gold.csv. Other sets have id and entity in train.csv and test.csv, or in
    records.csv. Cells are written as they are: what a spreadsheet takes for a formula is not escaped.
    """
    from scdp.io.atomic import Staged
    from scdp.io.tables import stage_table
    from scdp.io.targets import Given, check_files, open_folder

    parts = _tables(name, own, n_records)
    open_folder(folder)
    check_files([], [Given("--out", folder / f"{part}.csv") for part in parts], force)
    with Staged(replace=force) as staged:
        for part, columns in parts.items():
            stage_table(staged, folder / f"{part}.csv", columns)
    for part, columns in parts.items():
        click.echo(f"{folder / part}.csv: {len(columns['id'])} records")


def _tables(name: str, own: Path | None, n_records: int | None) -> dict[str, Any]:
    from scdp.datasets.tutorial import TUTORIAL_TABLES, make_tables

    if name in TUTORIAL_TABLES:
        if own is not None:
            raise InputError(f"{name!r} is made up here; leave --from out")
        return dict(make_tables(name, n_records))
    from scdp.paper.datasets.tables import OWN, exported_parts, offered_sets

    if n_records is not None:
        raise InputError(f"{name!r} has the records it has; --records is for {', '.join(TUTORIAL_TABLES)}")
    offered = (*TUTORIAL_TABLES, *offered_sets())
    if name not in (*offered, OWN):
        raise InputError(f"there is no set of records {name!r} to export; there are: {', '.join(offered)}")
    return dict(exported_parts(name, own))


def _row(source: Source) -> tuple[str, ...]:
    return source.name, str(source.records), str(source.clusters), source.licence, _where(source)


def _where(source: Source) -> str:
    missing = [file.path for file in source.files if files.find(source, file) is None]
    if len(missing) == len(source.files):
        return "not here"
    if missing:
        return f"without {', '.join(missing)}"
    first = files.find(source, source.files[0])
    return str(first)[: -len(source.files[0].path) - 1]


def aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    """Rows as lines of equal columns, numbers to the right, a rule below the header."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    marks = [">" if name in _NUMERIC else "<" for name in rows[0]]
    ruled = [rows[0], ["-" * width for width in widths[:-1]] + ["-" * len(rows[0][-1])], *rows[1:]]
    return [
        "  ".join(
            f"{cell:{mark}{width}}" for cell, mark, width in zip(row, marks, widths, strict=True)
        ).rstrip()
        for row in ruled
    ]


def _show(source: Source, file: File, check: bool) -> bool:
    place = files.find(source, file)
    problem = files.check(source, file) if check or place is None else ""
    verdict = (problem or "digest is right") if check else problem
    click.echo(f"{place or file.path}{': ' if verdict else ''}{verdict}")
    return not problem


def _fetch(source: Source, file: File) -> str:
    """Fetch what is missing, say so, and return what went wrong."""
    label = f"{source.name}/{file.path}"
    place = files.find(source, file)
    try:
        if place and not files.check(source, file):
            click.echo(f"{label}: already here")
        elif place and not place.is_relative_to(files.cache_folder()):
            raise InputError(
                f"{place}: not the published file (its SHA-256 differs); remove it or put that file there"
            )
        else:
            click.echo(f"{label}: fetched to {files.fetch(source, file)}")
    except InputError as error:
        click.echo(f"{label}: not fetched")
        return str(error)
    return ""
