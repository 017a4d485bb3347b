"""Finished parts of a run on disk: each a JSON file of its own, written whole or not at all, for --resume to find."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from scdp.errors import InputError
from scdp.io.atomic import write_bytes
from scdp.paper.experiments.settings import Settings

Part = dict[str, Any]


def write_atomically(path: Path, text: str) -> None:
    """The whole text under its name, or what was there before: never a half of it, whenever the process dies."""
    write_bytes_atomically(path, text.encode())


def write_bytes_atomically(path: Path, content: bytes) -> None:
    """Bytes as `write_atomically` writes text."""
    path.parent.mkdir(parents=True, exist_ok=True)
    write_bytes(path, content)


class Parts:
    """The folder DIR/parts, with the settings of the run that owns it."""

    def __init__(self, out: Path, settings: Settings, resume: bool) -> None:
        self._out, self._folder = out, out / "parts"
        self._check_owner(settings, resume)
        self._remove_halves()
        write_atomically(self._folder / "settings.json", _dumped(settings.as_dict()))

    def _check_owner(self, settings: Settings, resume: bool) -> None:
        if self._out.exists() and not self._out.is_dir():
            raise InputError(f"{self._out}: is a file; give --out a folder")
        owner = self._folder / "settings.json"
        if not owner.is_file():
            return
        earlier = read_json(owner)
        for name, value in settings.as_dict().items():
            if earlier.get(name) != value:
                raise InputError(
                    f"{self._out}: holds a run with {name} {earlier.get(name)}, and this one has {value}; "
                    "give another --out, or the options of that run with --resume"
                )
        finished = len(self.all())
        if finished and not resume:
            raise InputError(
                f"{self._out}: holds {finished} finished parts of an earlier run; "
                "go on with it by --resume, or give another --out"
            )

    def _remove_halves(self) -> None:
        for half in self._folder.glob(".*.json.*"):
            half.unlink(missing_ok=True)

    def find(self, *names: object) -> Part | None:
        """A finished part, or None."""
        path = self._path(names)
        return read_json(path) if path.is_file() else None

    def write(self, part: Mapping[str, Any], *names: object) -> None:
        write_atomically(self._path(names), _dumped(part))

    def all(self) -> list[Part]:
        """Every finished part, in the order of file names."""
        return [read_json(path) for path in sorted(self._folder.glob("*.part.json"))]

    def _path(self, names: tuple[object, ...]) -> Path:
        return self._folder / f"{'.'.join(map(str, names))}.part.json"


def _dumped(content: Mapping[str, Any]) -> str:
    return json.dumps(content, indent=1, sort_keys=True) + "\n"


def read_json(path: Path) -> Part:
    """A JSON object from a file, refused by name where it is none."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise InputError(
            f"{path}: cannot be read ({error}); remove it, and --resume makes it again"
        ) from error
    if not isinstance(content, dict):
        raise InputError(f"{path}: is not a part of a run; remove it, and --resume makes it again")
    return content
