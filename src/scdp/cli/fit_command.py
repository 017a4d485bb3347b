"""`scdp fit`: records with known clusters enter; a model folder leaves, or a proposed spec to edit.

The proposal is shown as a table: what each column looks like, how it is compared, and how much that told in training.
"""

from __future__ import annotations

import json
import logging
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from scdp.cli import (
    PATH,
    RecordsType,
    checkpoint_folder,
    checkpoint_options,
    is_quiet,
    json_option,
    reading_options,
    say,
    say_notes,
    tell,
)
from scdp.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    import numpy as np
    from numpy.typing import NDArray

    from scdp.estimators import Estimator
    from scdp.table import Records
    from scdp.table.decisions import Decision
    from scdp.table.propose import ProposedColumn
    from scdp.table.readers import Reading
    from scdp.table.spec import Spec


N_EXAMPLES, LONGEST_EXAMPLE = 2, 24
# Of a pipe: lines are as long as they must be.
ANY_WIDTH = 10_000
WHAT_TOLD = "told: what it adds to the log-odds of two records of one cluster, in the mean over labelled ones"


def is_proposed(spec_file: Path | None) -> bool:
    """Whether comparisons are proposed: there is no spec, or it names none."""
    from scdp.table.spec import Spec

    # Settings of Splink without any comparison are refused.
    return spec_file is None or (spec_file.suffix.lower() != ".json" and not Spec.from_toml(spec_file).fields)


def show_proposal(model: Estimator, records: Records) -> None:
    """On stderr: column by column what the model compares and what that told; `records` are those it learned from."""
    spec = model.fitted_spec_
    if is_quiet() or spec is None:
        return
    from rich.console import Console
    from rich.table import Table

    told = find_told(model)
    in_terminal = sys.stderr.isatty()
    console = Console(stderr=True, highlight=False, markup=False, emoji=False, width=None if in_terminal else ANY_WIDTH)
    heads = ("column", "looks like", "compared by", "told", "examples")
    table = Table(*heads) if in_terminal else Table(*heads, box=None, pad_edge=False)
    for row in describe(spec, records):
        compared, said = zip(*_say_comparisons(row, told), strict=True)
        cells = (row.column, row.looks_like, "\n".join(compared), "\n".join(said), _say_examples(row))
        table.add_row(*map(_printable, cells))
    if not told:
        table.columns.pop(heads.index("told"))
    console.print(table)
    if told:
        console.print(WHAT_TOLD)


def find_told(model: Estimator) -> dict[str, float]:
    """By name of a comparison, the nats it adds for labelled matches in the mean; empty where nothing was labelled."""
    from scdp.resolver_fit import ResolverFit

    fitted, spec = model.fitted_, model.fitted_spec_
    said = fitted.said_of_matches() if isinstance(fitted, ResolverFit) else None
    return {} if said is None or spec is None else dict(zip(spec.names, said.tolist(), strict=True))


def describe(spec: Spec, records: Records) -> list[ProposedColumn]:
    """What the columns look like, those that are not compared too, with the comparisons of the spec."""
    from dataclasses import replace

    from scdp.table.propose import propose_columns

    roles = {spec.entity, spec.id, spec.group, spec.source}
    columns = [name for name in records.names if name not in roles]
    entity = spec.entity if spec.entity in records.names else None
    found = propose_columns(records, columns, entity, spec.group is not None)
    return [
        replace(row, comparisons=tuple(field for field in spec.fields if row.column in field.columns)) for row in found
    ]


def _say_comparisons(row: ProposedColumn, told: Mapping[str, float]) -> Iterator[tuple[str, str]]:
    """How a column is compared and what that told, or why it is not, line by line."""
    for field in row.comparisons:
        others = [name for name in field.columns if name != row.column]
        kind = field.kind if field.of is None else f"{field.kind} of {field.of}"
        with_others = f", with {' and '.join(others)}" if others else ""
        yield kind + with_others, f"{told[field.name]:+.1f}" if field.name in told else ""
    if not row.comparisons:
        yield f"not compared: {row.note or 'another column holds it'}", ""
    elif row.missing:
        yield "missing: " + ", ".join(map(repr, row.missing)), ""


def _say_examples(row: ProposedColumn) -> str:
    texts = [text if len(text) <= LONGEST_EXAMPLE else text[: LONGEST_EXAMPLE - 1] + "…" for text in row.examples]
    return ", ".join(texts[:N_EXAMPLES])


def _printable(text: str) -> str:
    from scdp.report import escape_hidden

    return "\n".join(map(escape_hidden, text.split("\n")))


logger = logging.getLogger(__name__)

DEFAULT_MODEL = "resolver"
# What the resolver does where it has nothing to learn from.
NO_LABELS = "the model starts from typical curves, and the verdict will say how little is known"
# Unlabelled records that show what a table is like.
MOST_UNLABELLED = 1500
EXAMPLES = """\b
Examples:
  scdp fit train.csv --entity person --out model
  scdp fit train.csv --entity person --write-spec spec.toml
  scdp fit train.csv --spec spec.toml --out model
  scdp fit train.csv --spec splink.json --write-spec spec.toml
"""


@click.command(epilog=EXAMPLES)
@click.argument("records", type=RecordsType())
@click.option("--out", "folder", type=PATH, metavar="MODEL", help="Folder of the model.")
@click.option(
    "--spec", "spec_file", type=PATH, metavar="FILE",
    help="How to compare records: a spec, or settings of Splink (.json).",
)  # fmt: skip
@click.option(
    "--write-spec", "proposal", type=PATH, metavar="FILE", help="Only write the spec that would be used, to be edited."
)
@click.option("--entity", metavar="COLUMN", help="Known clusters.  [default: entity, cluster_id, cluster]")
@click.option("--id", "id_column", metavar="COLUMN", help="Ids.  [default: found by name]")
@click.option("--groups", metavar="COLUMN", help="Documents: records of two are never together.")
@click.option("--model", "model_name", metavar="NAME", help="resolver, scdp1, scdp2, scdp3 or cdp.")
@click.option("--chains", type=click.IntRange(min=1), metavar="N", help="Chains of the sampler.")
@click.option("--sweeps", type=click.IntRange(min=2), metavar="N", help="Sweeps of each chain.")
@click.option("--seed", type=click.IntRange(min=0, max=2**31 - 1), default=0, show_default=True, metavar="N")
@click.option("--sample", type=click.IntRange(min=1), metavar="N", help="Learn from N clusters at random.")
@click.option("--decisions", type=PATH, metavar="FILE", help="What people know of some records.")
@reading_options
@checkpoint_options("MODEL")
@click.option("--force", is_flag=True, help="Replace what is there, or write beside other files.")
@json_option
@click.option("--quiet", is_flag=True, help="Say nothing unless something is wrong.")
def fit(
    records: Path,
    folder: Path | None,
    spec_file: Path | None,
    proposal: Path | None,
    entity: str | None,
    id_column: str | None,
    groups: str | None,
    model_name: str | None,
    chains: int | None,
    sweeps: int | None,
    seed: int,
    sample: int | None,
    decisions: Path | None,
    reading: Reading,
    checkpoint: Path | None,
    seconds: float,
    resume: bool,
    force: bool,
    as_json: bool,
    quiet: bool,
) -> None:
    """Learn from records with known clusters which records are the same thing.

    RECORDS is a CSV, TSV, JSON, Parquet or Excel file. Records whose entity is empty are of unknown cluster;
    without any known cluster the resolver starts from what columns usually tell.
    Without --spec, comparisons are proposed from the columns: a table says which, and what each told. Ctrl-C leaves
    a checkpoint of a model of the paper that --resume continues; the resolver, which takes minutes, starts again.
    """
    from scdp.estimators.inputs import list_decisions, rows_named
    from scdp.io.atomic import write_text
    from scdp.table.readers import read_records
    from scdp.table.spec_files import commented_toml

    if folder is None and proposal is None:
        raise InputError("nothing to write: give --out MODEL, or --write-spec FILE")
    _check_files(records, spec_file, proposal, folder, checkpoint, force, decisions)
    table = read_records(records, reading)
    spec = spec_of(table, spec_file, entity, id_column, groups)
    if proposal is not None:
        from scdp.table.spec_files import mark_of_proposal

        text = commented_toml(spec, table)
        write_text(proposal, mark_of_proposal(text) + text, replace=force)
        say(f"wrote {proposal}; edit it, then  scdp fit {records} --spec {proposal} --out MODEL")
    if folder is not None:
        from scdp.chains_model import SCDP

        said = list_decisions(decisions)
        table, known = labelled_rows(table, spec, sample, seed)
        model = estimator(spec, seed, model_name, chains, sweeps)
        samples = isinstance(model, SCDP)
        lack = lack_of_labels(table, spec.entity, known)
        if samples and lack is not None:
            raise InputError(f"{lack}: {model.model} learns from at least two entities, one with two records")
        if not samples:
            if lack is not None and not said:
                say(f"{lack}; {NO_LABELS}")
            table, known = rows_to_learn_from(table, known, seed, rows_named(table, spec, said))
        if resume and not samples:
            say(f"{model.model} keeps no checkpoint: it starts again, and ends the same by its seed")
        with checkpoint_folder(checkpoint, folder, resume, samples) as kept:
            if isinstance(model, SCDP):
                model.keep_checkpoints(kept, seconds)
            _fit(model, table, known, folder, force, said)
        if is_proposed(spec_file):
            show_proposal(model, table)
        numbers = {"n_comparisons": model.n_features_in_, "n_records": len(table)}
        if as_json:
            click.echo(json.dumps({"out": str(folder), "model": model.model} | numbers))
        elif not quiet:
            tell(f"{folder}: {model.model}, {model.n_features_in_} comparisons, {len(table)} records")


def _check_files(
    records: Path,
    spec_file: Path | None,
    proposal: Path | None,
    folder: Path | None,
    checkpoint: Path | None,
    force: bool,
    decisions: Path | None = None,
) -> None:
    """All that is read and written, looked at before anything is."""
    from scdp.estimators.model_folder import FILES, check_model_target
    from scdp.io.targets import Given, check_files, check_folder_target, check_target, list_given
    from scdp.table.readers import file_of

    outputs = list_given({"--write-spec": proposal, "--checkpoint": checkpoint})
    if proposal is not None:
        check_target(proposal)
    if folder is not None:
        check_folder_target(folder)
        check_model_target(folder, force)
        outputs += [Given("--out", folder / name) for name in FILES]
    inputs = {"RECORDS": file_of(records), "--spec": spec_file, "--decisions": decisions}
    check_files(list_given(inputs), outputs, force)
    if proposal is not None:
        _refuse_edited(proposal)


def _refuse_edited(proposal: Path) -> None:
    """A spec that somebody has worked on is not replaced, not even by --force."""
    from scdp.table.spec_files import is_proposal

    if proposal.is_file() and not is_proposal(proposal.read_text(encoding="utf-8", errors="replace")):
        raise InputError(f"{proposal}: this spec was edited, so it is kept; write the proposal to another file")


def _fit(
    model: Estimator, table: Records, known: NDArray[np.int64], folder: Path, force: bool, decisions: list[Decision]
) -> None:
    from scdp.table.spec_files import commented_toml

    n_entities = len(set(known[known >= 0].tolist()))
    more = f", and from {len(decisions)} decisions" if decisions else ""
    say(f"learning from {int((known >= 0).sum())} records of {n_entities} entities{more}")
    with say_notes():
        model.fit(table, known, decisions=decisions or None)
    fitted = model.fitted_spec_
    model.save(folder, force=force, spec_text=None if fitted is None else commented_toml(fitted, table))


def spec_of(
    records: Records, spec_file: Path | None, entity: str | None, id_column: str | None, groups: str | None
) -> Spec:
    """The spec of the file and the options, which count for more; comparisons are proposed where it has none."""
    from scdp.table.propose import propose
    from scdp.table.spec import Spec, find_entity_column, find_id_column

    base = None if spec_file is None else Spec.from_toml(spec_file)
    entity = entity or (base.entity if base else find_entity_column(records))
    group = groups or (base.group if base else None)
    id_column = id_column or (base.id if base else None)
    if id_column is None and (id_column := find_id_column(records, (entity, group))):
        logger.info("ids are in column %r (name another by --id)", id_column)
    named = [name for name in (entity, id_column, group) if name]
    records.require(*named)
    if len(set(named)) < len(named):
        twice = next(name for name in named if named.count(name) > 1)
        raise InputError(f"the column {twice!r} is given two roles; entity, id and groups must differ")
    if base is None or not base.fields:
        source = base.source if base else None
        found = propose(records, entity, id_column, group, source)
        return (
            replace(found, golden=base.golden, at_most_one=base.at_most_one, link_only=base.link_only)
            if base
            else found
        )
    fields = base.fields
    for field in fields:
        records.require(*field.columns_read)
        if entity in field.columns_read:
            raise InputError(
                f"the entity column {entity!r} is compared by {field.name!r}, which gives the answer away; "
                "leave that field out of the spec"
            )
    return replace(base, entity=entity, fields=fields, id=id_column, group=group)


def labelled_rows(records: Records, spec: Spec, sample: int | None, seed: int) -> tuple[Records, NDArray[np.int64]]:
    """The records to learn from, and the number of each one's cluster, -1 where it is unknown."""
    import numpy as np

    from scdp.table import unique_ids

    if spec.id is not None:
        unique_ids(records, spec.id)
    if spec.entity is None:
        return records, np.full(len(records), -1, dtype=np.int64)
    cells = records[spec.entity]
    names = sorted({cell for cell in cells if cell is not None})
    number = {name: k for k, name in enumerate(names)}
    known = np.array([-1 if cell is None else number[cell] for cell in cells], dtype=np.int64)
    if sample is not None and sample < len(names):
        chosen = np.random.default_rng(seed).permutation(len(names))[:sample]
        rows = np.flatnonzero(np.isin(known, chosen))
        records, known = records.take(rows), np.unique(known[rows], return_inverse=True)[1].astype(np.int64)
    return records, known


def lack_of_labels(records: Records, entity: str | None, known: NDArray[np.int64]) -> str | None:
    """Why the known clusters teach nothing, in words; None where they teach something."""
    import numpy as np

    if entity is None:
        return f"{records.source}: no column of known clusters was found (name it by --entity)"
    sizes = np.bincount(known[known >= 0])
    if not len(sizes):
        return f"{records.source}: column {entity!r} is empty"
    if sizes.max() < 2 or len(sizes) < 2:
        what = "no two records share an entity" if sizes.max() < 2 else "all records are of one entity"
        return f"{records.source}: column {entity!r}: {what}"
    return None


def rows_to_learn_from(
    records: Records, known: NDArray[np.int64], seed: int, decided: NDArray[np.bool_]
) -> tuple[Records, NDArray[np.int64]]:
    """Labelled and decided records, and at most so many others as it takes to see what the table is like."""
    import numpy as np

    others = np.flatnonzero((known < 0) & ~decided)
    if len(others) <= MOST_UNLABELLED:
        return records, known
    some = np.random.default_rng(seed).choice(others, MOST_UNLABELLED, replace=False)
    rows = np.sort(np.concatenate([np.flatnonzero((known >= 0) | decided), some]))
    return records.take(rows), known[rows]


def estimator(
    spec: Spec, seed: int, model_name: str | None = None, chains: int | None = None, sweeps: int | None = None
) -> Estimator:
    """The estimator that the options describe; what is not given is as in Python."""
    from scdp.estimators.model_folder import HOMES, estimator_class

    name = model_name or DEFAULT_MODEL
    if name not in HOMES:
        raise InputError(f"--model must be one of {', '.join(HOMES)}, not {name!r}")
    kind = estimator_class(name, "--model")
    given: dict[str, Any] = {"model": name, "n_chains": chains, "n_sweeps": sweeps}
    accepted = kind().get_params(deep=False)
    model = kind().set_params(
        spec=spec,
        random_state=seed,
        n_jobs=-1,
        verbose=int(not is_quiet()),
        **{key: value for key, value in given.items() if value is not None and key in accepted},
    )
    model.check_parameters()
    return model
