"""The files of a result: clusters and what is asked for beside them become files, all of them or none."""

from __future__ import annotations

import json
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from scdp.errors import InputError
from scdp.io.atomic import Staged
from scdp.io.tables import DELIMITERS, stage_spreadsheet, stage_table
from scdp.io.targets import Given, check_table_target, check_target, list_given
from scdp.results.folder import FolderMaker, check_result_target, list_files, stage_result

if TYPE_CHECKING:
    from scdp.estimators.base import Estimator
    from scdp.estimators.result import ClusterResult


class Outputs(NamedTuple):
    """The files to write; None = not asked for."""

    out: Path
    uncertain: Path
    report: Path | None
    draws: Path | None
    spreadsheet: Path | None
    summary: Path | None
    pairs: Path | None = None
    golden: Path | None = None
    at_least: float = 0.01

    def given(self) -> list[Given]:
        """The files by their options."""
        inside = [] if self.draws is None else [Given("--draws", path) for path in list_files(self.draws)]
        paths = {f"--{name}": path for name, path in self._asdict().items() if name != "at_least"}
        return [*list_given(paths), *inside]

    def check(self) -> None:
        """Refuse what cannot be written, before anything is done."""
        for path in filter(None, (self.uncertain, self.pairs, self.golden)):
            check_table_target(path)
        for path in filter(None, (self.report, self.spreadsheet, self.summary)):
            check_target(path)
        if self.draws is not None:
            check_result_target(self.draws)
        if self.spreadsheet is not None and self.spreadsheet.suffix.lower() not in DELIMITERS:
            raise InputError(f"{self.spreadsheet}: spreadsheets open text files; name it .csv or .tsv")


def write_outputs(result: ClusterResult, model: Estimator, outputs: Outputs, force: bool) -> None:
    """All files appear together, or none."""
    out, uncertain, report, draws, spreadsheet, summary, pairs, golden, at_least = outputs
    with nullcontext() if draws is None else FolderMaker(draws), Staged(replace=force) as staged:
        stage_table(staged, uncertain, uncertain_columns(result))
        if draws is not None:
            stage_result(staged, draws, result, model)
        if report is not None:
            from scdp.report.result_page import write_report

            staged.write(report, lambda part: write_report(part, result))
        if spreadsheet is not None:
            stage_spreadsheet(staged, spreadsheet, spreadsheet_columns(result))
        if summary is not None:
            staged.text(summary, json.dumps(result.summary(), indent=1) + "\n")
        if pairs is not None:
            _stage_pairs(staged, pairs, result, at_least)
        if golden is not None:
            from scdp.results.golden import make_golden

            rules = {} if result.spec is None else dict(result.spec.golden)
            stage_table(staged, golden, make_golden(result, rules))
        stage_table(staged, out, cluster_columns(result))


def _stage_pairs(staged: Staged, path: Path, result: ClusterResult, at_least: float) -> None:
    from scdp.posterior.tables import write_parquet
    from scdp.results.golden import list_pairs

    columns = list_pairs(result, at_least)
    if path.suffix.lower() == ".parquet":
        staged.write(path, lambda part: write_parquet(part, columns))
    else:
        stage_table(staged, path, columns)


def id_title(result: ClusterResult) -> str:
    """The name of the column of ids, unless that would be taken for another."""
    name = result.id_column
    return "id" if name is None or name in ("cluster", "probability") else name


def cluster_columns(result: ClusterResult) -> dict[str, list[object]]:
    """The columns of the file of clusters."""
    return {
        id_title(result): list(map(str, result.ids.tolist())),
        "cluster": list(map(str, result.labels.tolist())),
        "probability": [round(p, 4) for p in result.probabilities.tolist()],
    }


def spreadsheet_columns(result: ClusterResult) -> dict[str, list[object]]:
    """The clusters with all cells of their records, the rows of a cluster one after another."""
    columns = cluster_columns(result)
    for name in result.records.names:
        if name != result.id_column:
            title = f"{name}_given" if name in columns else name
            columns[title] = [cell or "" for cell in result.records[name]]
    rows = sorted(range(result.n_records), key=lambda row: (str(result.labels[row]), str(result.ids[row])))
    return {title: [cells[row] for row in rows] for title, cells in columns.items()}


def uncertain_columns(result: ClusterResult) -> dict[str, list[object]]:
    """The columns of the file of uncertain pairs."""
    pairs = result.uncertain
    return {
        "id1": [str(result.ids[pair.left]) for pair in pairs],
        "id2": [str(result.ids[pair.right]) for pair in pairs],
        "probability": [round(pair.probability, 4) for pair in pairs],
        "together": ["yes" if pair.together else "no" for pair in pairs],
    }
