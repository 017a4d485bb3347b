"""The folder of a fitted model: JSON, TOML and plain arrays, readable by a person, written whole or not at all.

model.json      what it is, its settings, and what was learned as far as it is not arrays
arrays.npz      plain arrays (read without pickle)
spec.toml       how records are compared (models of records)
records.jsonl   the training records, compared columns only (models that need them)
posterior.npz   the draws of `fit` (models that made some)
model_card.md   what it is, what it learned from, and its limits, for people; it is never read back
"""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from scdp import __version__
from scdp.errors import InputError
from scdp.estimators.result import FEW, Calibration, Learned
from scdp.io import parse_json, read_arrays, read_bytes, remove
from scdp.io.atomic import (
    OLD,
    PlainParts,
    leftovers_of,
    make_stamp,
    part,
    part_of,
    release_stamp,
    remove_leftovers,
    sync,
)
from scdp.posterior import Posterior

if TYPE_CHECKING:
    from scdp.estimators import Estimator


MEANING = {
    "resolver": "the resolver: evidence of pairs, and the law of a partition, learned from known groups",
    "cdp": "the paper's Dirichlet process mixture without reference types",
    "scdp1": "the paper's first supervised model, with reference types",
    "scdp2": "the paper's second supervised model, with reference types",
    "scdp3": "the paper's third supervised model, with reference types",
}
KINDS = {
    "spec.toml": "how records are compared",
    "records.jsonl": "the compared columns of training records, where they are kept",
    "model.json": "settings, and what was learned",
    "arrays.npz": "numbers",
    "posterior.npz": "draws of fit",
}


def write_card(model: Estimator, settings: Mapping[str, Any], files: list[str]) -> str:
    """The page in Markdown: of a fitted estimator, its arguments as stored, and the other files of the folder."""
    learned = model.fitted_.learned()
    parts = [
        f"# Model card\n\nscdp {__version__} made this model: {MEANING[model.model]}.\nIt groups records "
        "that are the same thing, and says how sure it is.\n",
        _training(learned),
        _features(learned),
        _held_out(learned.calibration),
        _limits(learned),
        _contents(files, len(model.fitted_.rows)),
        "## Settings\n\n" + "".join(f"- `{name}`: {value!r}\n" for name, value in settings.items()),
    ]
    return "\n".join(parts)


def _training(learned: Learned) -> str:
    lines = ["## Learned from\n"]
    if not learned.n_records:
        return "\n".join([*lines, "No labels. It starts from what such columns usually tell.\n"])
    lines.append(f"- labelled records: {learned.n_records:,}")
    lines.append(f"- groups they are in: {learned.n_clusters:,}")
    if learned.n_repeated is not None:
        lines.append(f"- groups of two records or more: {learned.n_repeated:,}")
    return "\n".join(lines) + "\n"


def _features(learned: Learned) -> str:
    """What is compared, and how much hangs on each."""
    if learned.model != "resolver" or learned.weights is None:
        return "## Compared\n\n" + "".join(f"- {_plain(name)}\n" for name in learned.features)
    weights = learned.weights[0]
    rows = [f"| {_plain(learned.features[k])} | {weights[k]:.2f} |" for k in np.argsort(-weights, kind="stable")]
    head = "## Compared\n\nThe second column is the mean change of the evidence, in nats, if the first were missing.\n"
    return "\n".join([head, "| comparison | nats |", "|---|---|", *rows]) + "\n"


def _plain(name: str) -> str:
    """A name of a column as a cell of a table: on one line, and with no mark that ends the cell or opens a tag."""
    shown = "".join(character if character.isprintable() else " " for character in name)
    return shown.replace("|", "\\|").replace("<", "&lt;")


def _held_out(calibration: Calibration | None) -> str:
    head = "## On groups that were held out\n\n"
    if calibration is None or not calibration.count.sum():
        return head + "Nothing was held out, so nothing was measured.\n"
    full = np.flatnonzero(calibration.count)
    share = calibration.count[full] / calibration.count.sum()
    error = float((share * np.abs(calibration.predicted[full] - calibration.observed[full])).sum())
    rows = [
        f"| {calibration.edges[b]:.1f} to {calibration.edges[b + 1]:.1f} | {calibration.count[b]:,} | "
        f"{calibration.predicted[b]:.3f} | {calibration.observed[b]:.3f} |"
        for b in full
    ]
    told = f"\nProbability and share differ by {error:.4f} in the mean over pairs.\n"
    table = ["| probability | pairs | mean probability | share together |", "|---|---|---|---|", *rows]
    return head + "\n".join(table) + "\n" + told


def _limits(learned: Learned) -> str:
    lines = ["## Limits\n", "- It is for tables of the same kind as the one it learned from."]
    lines.append("- A mistake in the labels is learned like a fact.")
    if learned.n_repeated is not None and learned.n_repeated < FEW:
        lines.append(f"- Few groups taught it: fewer than {FEW} have two records or more.")
    lines.append("- Every result has a verdict of its own. Read it before you use the result.")
    lines.append("- Do not use it alone for decisions about people: ask for a second look at what is uncertain.")
    return "\n".join(lines) + "\n"


def _contents(files: list[str], n_rows: int) -> str:
    lines = ["## What the folder holds\n", *(f"- `{name}`: {KINDS[name]}" for name in files)]
    if n_rows:
        lines.append(f"\nIt holds {n_rows:,} training records. Pass it on only if you may pass on the records.")
    else:
        lines.append("\nIt holds no training records, but the names of columns and how values are spread.")
    return "\n".join([*lines, "No file holds code.\n"])


FORMAT = "scdp-model"
VERSION = (1, 0)
FILES = ("model.json", "arrays.npz", "spec.toml", "records.jsonl", "posterior.npz", "model_card.md")
MODEL, ARRAYS, SPEC, RECORDS, POSTERIOR, CARD = FILES
LARGEST_WORDS = 64 << 20
# Where a run computes is of this machine, and no part of the model; a spec has a file of its own.
LEFT_OUT = ("spec", "engine")


def check_model_target(folder: Path, force: bool = False) -> Path:
    """Refuse a place where a model cannot be written, or that holds something else, before any work is done."""
    if folder.is_symlink() or (folder.exists() and not folder.is_dir()):
        raise InputError(f"{folder}: there is a file of this name; give another folder for the model")
    parent = folder.absolute().parent
    if not parent.is_dir():
        raise InputError(f"{folder}: there is no folder {parent}; make it, or give another place")
    if not os.access(parent, os.W_OK | os.X_OK):
        raise InputError(f"{folder}: cannot be written there; give another folder for the model")
    if folder.is_dir() and not force and (foreign := _foreign(folder)):
        raise InputError(
            f"{folder}: holds {foreign[0]!r}, which is no part of a model; give another folder, or --force"
        )
    return folder


def save(model: Estimator, folder: str | os.PathLike[str], force: bool, spec_text: str | None) -> None:
    """Write beside the target, then rename. Foreign files are kept, and only by `force` is a model put among them."""
    target = check_model_target(Path(folder), force)
    stamp = make_stamp()
    part_folder, old = part_of(target.absolute(), stamp), part_of(target.absolute(), stamp, OLD)
    try:
        _recover(target.absolute())
        part_folder.mkdir(mode=0o700 if target.exists() else 0o777)
        _write_files(model, part_folder, spec_text)
        _keep_modes(part_folder, target)
        _swap(part_folder, target.absolute(), old)
    except OSError as error:
        raise InputError(
            f"{target}: cannot be written ({error.strerror or error}); give another folder for the model"
        ) from error
    finally:
        remove(part_folder)
        release_stamp(stamp)


def _keep_modes(new: Path, target: Path) -> None:
    """What was closed to others stays so."""
    for path in (*new.iterdir(), new):
        before = target if path == new else target / path.name
        if before.exists():
            path.chmod(stat.S_IMODE(before.stat().st_mode))


def _foreign(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir() if path.name not in FILES)


def _recover(target: Path) -> None:
    """Where a process was killed while it put a model in the place of another: keep what was there, drop halves."""
    for old, _ in leftovers_of(target, OLD):
        if not target.exists():
            old.rename(target)
            continue
        for name in _foreign(old):
            if not (target / name).exists():
                (old / name).rename(target / name)
        if not _foreign(old):
            remove(old)
    remove_leftovers(target)


def _swap(new: Path, target: Path, old: Path) -> None:
    if not target.exists():
        new.rename(target)
    else:
        target.rename(old)
        try:
            new.rename(target)
        except OSError:
            old.rename(target)
            raise
        for name in _foreign(old):
            (old / name).rename(target / name)
        remove(old)
    sync(target.parent)


def _write_files(model: Estimator, folder: Path, spec_text: str | None) -> None:
    words, arrays = model.fitted_.to_parts()
    settings, more = _settings(model)
    texts: dict[str, str] = {}
    if "spec" in words:
        plain = words.pop("spec")
        texts[SPEC] = spec_text or plain
    if "records" in words:
        rows = words.pop("records")
        texts[RECORDS] = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
    about = {
        "format": FORMAT,
        "version": list(VERSION),
        "written_by": f"scdp {__version__}",
        "model": model.model,
        "parameters": settings,
        "fitted": words,
    }
    texts[MODEL] = _json_text(about)
    for name, text in texts.items():
        (folder / name).write_text(text, encoding="utf-8", newline="")
    with (folder / ARRAYS).open("wb") as file:
        contents: dict[str, Any] = {name: np.asarray(value) for name, value in (arrays | more).items()}
        np.savez(file, allow_pickle=False, **contents)
    if (posterior := getattr(model, "posterior_", None)) is not None:
        posterior.save(folder / POSTERIOR)
    written = sorted(path.name for path in folder.iterdir())
    (folder / CARD).write_text(write_card(model, settings, written), encoding="utf-8", newline="")
    for path in (*folder.iterdir(), folder):
        sync(path)


def _json_text(about: PlainParts) -> str:
    try:
        return json.dumps(about, indent=1, ensure_ascii=False, allow_nan=False) + "\n"
    except (TypeError, ValueError) as error:
        raise InputError(f"the model has a setting that cannot be written down ({error}); change it") from error


def _settings(model: Estimator) -> tuple[PlainParts, dict[str, NDArray[Any]]]:
    """The constructor's arguments as JSON, except a spec and given starts, which have files of their own."""
    settings = {name: value for name, value in model.get_params(deep=False).items() if name not in LEFT_OUT}
    arrays = {} if isinstance(settings.get("init", ""), str) else {"init": np.asarray(settings.pop("init"))}
    # A generator cannot be written down; the seed that it gave is kept with what was fitted.
    if not isinstance(settings["random_state"], int | np.integer | None):
        settings["random_state"] = None
    return {name: value.item() if isinstance(value, np.generic) else value for name, value in settings.items()}, arrays


# By the name of a model, its estimator; imported when it is asked for.
HOMES = {
    **dict.fromkeys(("cdp", "scdp1", "scdp2", "scdp3"), ("scdp.chains_model", "SCDP")),
    "resolver": ("scdp.resolver", "EntityResolver"),
}
Kind = TypeVar("Kind", bound="Estimator")


def estimator_class(model: str, source: str) -> type[Estimator]:
    """The estimator of the named model."""
    if model not in HOMES:
        raise InputError(
            f"{source}: the model {model!r} is not known to this version of scdp; it knows: {', '.join(HOMES)}"
        )
    module, name = HOMES[model]
    found: type[Estimator] = getattr(import_module(module), name)
    return found


def load_as(kind: type[Kind], folder: str | os.PathLike[str]) -> Kind:
    """The model that `save` wrote, which must be of this kind."""
    model = load_model(folder)
    if not isinstance(model, kind):
        raise InputError(f"{folder}: the model {model.model!r} is no {kind.__name__}; use {type(model).__name__}.load")
    return model


def load_model(folder: str | os.PathLike[str]) -> Estimator:
    """The model that `save` wrote; what is not understood is refused in one sentence."""
    place = Path(folder)
    about = _read_about(place)
    try:
        words = dict(_object(part(about, "fitted"), "fitted"))
        arrays = _read_arrays(place)
        words |= _read_beside(place)
        model_class = estimator_class(str(part(about, "model")), str(place))
        fitted = model_class.fitted_class.from_parts(words, arrays)
        parameters = dict(_object(part(about, "parameters"), "parameters"))
        model = _with_parameters(model_class, parameters, arrays)
        if model.model != about["model"]:
            raise InputError(f"its settings are of {model.model!r}, and it is {about['model']!r}")
        model.restore(fitted)
        if (place / POSTERIOR).exists():
            model.posterior_ = Posterior.load(place / POSTERIOR)
    except InputError as error:
        text = str(error)
        where = "" if text.startswith(str(place)) else f"{place}: "
        raise InputError(f"{where}{text.rstrip('.')}; fit the model again") from error
    except (TypeError, ValueError, AttributeError, KeyError, IndexError) as error:
        raise InputError(
            f"{place}: is not a whole model ({type(error).__name__}: {error}); fit the model again"
        ) from error
    return model


def _with_parameters(
    model_class: type[Estimator], parameters: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]
) -> Estimator:
    # A later minor version may have added parameters, whose defaults are what this version does.
    names = [name for name in model_class().get_params(deep=False) if name not in LEFT_OUT]
    known = {name: parameters[name] for name in names if name in parameters}
    model = model_class(**(known | ({"init": arrays["init"]} if "init" in arrays else {})))
    model.check_parameters()
    return model


def _read_about(place: Path) -> dict[str, Any]:
    if not place.exists():
        raise InputError(f"{place}: there is no such model; make it with  scdp fit RECORDS --out {place}")
    if not (place / MODEL).is_file():
        raise InputError(f"{place}: this is no model of scdp (it has no {MODEL}); give the folder of a model")
    about = json_object(place / MODEL)
    if about.get("format") != FORMAT:
        raise InputError(f"{place}: this is no model of scdp; give a folder that  scdp fit  has written")
    version = about.get("version")
    if not (isinstance(version, list) and len(version) == 2 and all(type(v) is int for v in version)):
        raise InputError(f"{place}: its version is {version!r}, which is none; fit the model again")
    if version[0] != VERSION[0]:
        raise InputError(
            f"{place}: written in version {version[0]}.{version[1]} of the format, and this scdp reads "
            f"{VERSION[0]}.x; fit the model again, or use another scdp"
        )
    return about


def json_object(path: Path) -> dict[str, Any]:
    """A JSON object from a file."""
    try:
        content = parse_json(read_bytes(path, LARGEST_WORDS).decode("utf-8"))
        json.dumps(content, allow_nan=False)
    except ValueError as error:
        reason = str(error).removeprefix(f"{path}: ")
        raise InputError(f"{path}: cannot be read ({reason}); fit the model again") from error
    if not isinstance(content, dict):
        raise InputError(f"{path}: this is no JSON object, so no model; fit the model again")
    return content


def _object(content: Any, name: str) -> dict[str, Any]:
    if not isinstance(content, dict):
        raise InputError(f"{name!r} is a {type(content).__name__}, and it should be an object")
    return content


def _read_arrays(place: Path) -> dict[str, NDArray[Any]]:
    path = place / ARRAYS
    if not path.is_file():
        raise InputError(f"{ARRAYS!r} is missing")
    try:
        return read_arrays(path)
    except InputError as error:
        reason = str(error).removeprefix(f"{path}: ")
        raise InputError(f"{ARRAYS!r} cannot be read: {reason}") from error


def _read_beside(place: Path) -> PlainParts:
    words: PlainParts = {}
    try:
        if (place / SPEC).exists():
            words["spec"] = read_bytes(place / SPEC, LARGEST_WORDS).decode("utf-8")
        if (place / RECORDS).exists():
            # Not splitlines(): it also splits at separators that may stand inside a JSON string.
            lines = read_bytes(place / RECORDS).decode("utf-8").split("\n")
            words["records"] = [_object(parse_json(line), RECORDS) for line in lines if line]
    except InputError:
        raise
    except ValueError as error:
        raise InputError(f"a file of the model cannot be read ({error})") from error
    return words
