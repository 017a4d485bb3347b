"""Where a data set's file is: `$SCDP_DATA`, then the user's cache, then fetched into that cache.

Files found on the machine are taken as they are, not hashed on every load; `check` compares digests.
"""

from __future__ import annotations

import os
from pathlib import Path

from scdp.errors import DataNotFoundError, InputError
from scdp.paper.datasets.fetch import digest_of, fetch_file
from scdp.paper.datasets.sources import File, Source, source_named


def cache_folder() -> Path:
    """Where fetched sets are kept: scdp/data under $SCDP_CACHE, $XDG_CACHE_HOME or ~/.cache."""
    base = os.environ.get("SCDP_CACHE") or os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    return _expanded(base) / "scdp" / "data"


def _expanded(folder: str) -> Path:
    try:
        return Path(folder).expanduser()
    except RuntimeError as error:
        raise InputError("there is no home folder for the cache: set SCDP_CACHE to a folder") from error


def search_folders() -> list[Path]:
    """The folders looked into, first the one that wins."""
    data = os.environ.get("SCDP_DATA")
    return ([_expanded(data)] if data else []) + [cache_folder()]


def find(source: Source, file: File) -> Path | None:
    """The file on this machine, or None; never fetches."""
    places = (folder / source.name / file.path for folder in search_folders())
    return next((place for place in places if place.is_file()), None)


def require(name: str, path: str) -> Path:
    """The file of the named set, fetched where it is missing and SCDP_OFFLINE does not forbid it."""
    source = source_named(name)
    file = source.file(path)
    return find(source, file) or fetch(source, file)


def fetch(source: Source, file: File) -> Path:
    """Fetch one file into the cache and return where it is."""
    reason = _why_not(source, file)
    if reason:
        raise DataNotFoundError(_not_found(source, file, reason))
    target = cache_folder() / source.name / file.path
    try:
        fetch_file(str(file.url), target, size=file.size, sha256=file.sha256)
    except InputError as error:
        raise DataNotFoundError(_not_found(source, file, str(error))) from error
    return target


def _why_not(source: Source, file: File) -> str:
    if file.url is None:
        return f"it has no public copy to fetch ({source.origin})"
    if os.environ.get("SCDP_OFFLINE", "") not in ("", "0"):
        return "SCDP_OFFLINE forbids fetching it (unset that, then `scdp datasets fetch " + source.name + "`)"
    return ""


def _not_found(source: Source, file: File, reason: str) -> str:
    folders = " or ".join(str(folder) for folder in search_folders())
    hint = "" if "SCDP_DATA" in os.environ else ", or set SCDP_DATA to the folder that holds it"
    return f"{source.name}/{file.path} is not in {folders}, and {reason}: put the file there{hint}"


def check(source: Source, file: File) -> str:
    """What is wrong with the file on this machine: empty when its digest is the pinned one."""
    place = find(source, file)
    if place is None:
        return "not here"
    return "" if digest_of(place) == file.sha256 else "digest differs from the published file's"
