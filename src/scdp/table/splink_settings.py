"""Settings of Splink: a JSON file that it saved enters; the spec that compares the same columns leaves.

What Splink has learned (m and u), its thresholds and its blocking rules are left out: scdp learns its own.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from scdp.compare import Comparison, make_comparison
from scdp.errors import InputError
from scdp.io.untrusted import parse_json, read_bytes
from scdp.table.spec import Spec

logger = logging.getLogger(__name__)

LARGEST_FILE = 16 << 20
LONGEST_CONDITIONS = 1 << 16
MOST_COMPARISONS = 500
# By what the conditions of a comparison call, the first that is found: the kind of comparison here, None for none.
KINDS: tuple[tuple[str, str | None], ...] = (
    (r"strptime|epoch|date_?diff|to_date|to_timestamp", "date"),
    (r"acos\s*\(|haversine|radians", "geo"),
    (r"cosine", None),
    (r"\^\[\^@\]|'@'|split_part[^\n]{0,200}@", "email"),
    (r"\[a-z\]\{1,2\}|\[a-za-z\]\{1,2\}", "code"),
    (r"intersect", "set_overlap"),
    (r"jaccard", "token_set"),
    (r"jaro", "jaro_winkler"),
    (r"levenshtein", "edit"),
    (r"\babs\s*\(", "absolute"),
    (r"=", "exact"),
)
QUOTED, BARE = re.compile(r"""["`]([^"`]{1,200})_l["`]"""), re.compile(r"\b(\w{1,200})_l\b")


def read_splink_settings(path: str | Path) -> Spec:
    """The spec that compares what the settings compare.

    Parameters
    ----------
    path : path
        A JSON file of settings, with or without what was learned.

    Returns
    -------
    Spec
        With a comparison for each of Splink's that has a counterpart. Others are logged.

    Example
    -------
    >>> import json, pathlib, tempfile
    >>> level = {"sql_condition": 'levenshtein("city_l", "city_r") <= 2'}
    >>> settings = {"unique_id_column_name": "nr", "comparisons": [{"comparison_levels": [level]}]}
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "settings.json"
    >>> _ = path.write_text(json.dumps(settings))
    >>> read_splink_settings(path).names
    ('edit(city)',)
    """
    settings = _read(Path(path))
    fields: dict[str, Comparison] = {}
    for number, comparison in enumerate(settings["comparisons"], start=1):
        field = _counterpart(comparison, number, str(path))
        if field is not None:
            fields.setdefault(field.name, field)
    if not fields:
        raise InputError(f"{path}: no comparison of these settings has a counterpart; write a spec instead")
    linking = settings.get("link_type", "dedupe_only") != "dedupe_only"
    logger.info(
        "%s: %d comparisons taken over; weights, thresholds and blocking rules are learned anew%s",
        path,
        len(fields),
        " (link two tables by  scdp link)" if linking else "",
    )
    return Spec(fields=fields.values(), id=settings.get("unique_id_column_name", "unique_id") or None)


def _read(path: Path) -> dict[str, Any]:
    try:
        settings = parse_json(read_bytes(path, LARGEST_FILE).decode("utf-8-sig"))
    except ValueError as error:
        if isinstance(error, InputError):
            raise
        raise InputError(
            f"{path}: is not JSON ({error}); give a spec (.toml) or settings of Splink"
        ) from error
    if not isinstance(settings, dict) or not isinstance(settings.get("comparisons"), list):
        raise InputError(f"{path}: these are no settings of Splink (they have no list of comparisons)")
    if len(settings["comparisons"]) > MOST_COMPARISONS:
        raise InputError(f"{path}: has more than {MOST_COMPARISONS} comparisons; leave some out")
    if not isinstance(settings.get("unique_id_column_name", ""), str):
        raise InputError(f"{path}: unique_id_column_name must be the name of a column")
    return settings


def _counterpart(comparison: object, number: int, source: str) -> Comparison | None:
    conditions = _conditions(comparison, number, source)
    found = dict.fromkeys(QUOTED.findall(conditions) or BARE.findall(conditions))
    columns = list(found)
    kind = next((kind for mark, kind in KINDS if re.search(mark, conditions, re.IGNORECASE)), None)
    if kind == "jaro_winkler" and len(columns) > 1:
        kind = "person_name"
    if kind is None or not columns:
        name = comparison.get("output_column_name", "") if isinstance(comparison, Mapping) else ""
        logger.info("%s: comparison %d (%s) has no counterpart and is left out", source, number, name)
        return None
    return make_comparison(kind, columns if len(columns) > 1 else columns[0])


def _conditions(comparison: object, number: int, source: str) -> str:
    """What the levels of a comparison ask, in SQL, without those about missing cells."""
    levels = comparison.get("comparison_levels") if isinstance(comparison, Mapping) else None
    if not isinstance(levels, list) or not all(isinstance(level, Mapping) for level in levels):
        raise InputError(
            f"{source}: comparison {number} has no list of levels; give settings as Splink saves them"
        )
    texts = [str(level.get("sql_condition", "")) for level in levels if not level.get("is_null_level")]
    return "\n".join(texts)[:LONGEST_CONDITIONS]
