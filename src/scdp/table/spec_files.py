"""Spec files: TOML text to Spec, or to one sentence with the file and line at fault; and back, in plain words.

Of settings of Splink, what it has learned (m and u), its thresholds and its blocking rules are left out: scdp learns
its own.
"""

from __future__ import annotations

import hashlib
import logging
import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from scdp.compare import Comparison, ComparisonError, make_comparison
from scdp.compare.languages import NameGroups
from scdp.compare.prepared import Frequencies, cell_text
from scdp.errors import InputError
from scdp.io import parse_json, read_bytes
from scdp.table import Records
from scdp.table.propose import propose_columns
from scdp.table.readers import WANTED, WANTED_NAMES, find_frequencies, find_nicknames
from scdp.table.spec import Spec

COLUMN_KEYS = ("entity", "id", "group", "source")
SPEC_KEYS = (*COLUMN_KEYS, "at_most_one", "link_only", "field", "golden")
LARGEST_FILE = 4 << 20
MOST_FIELDS = 500
# The reader of TOML takes time in the square of the parts of a dotted key.
MOST_DOTS = 100
OPTION_KEYS = ("of", "clean", "scale", "separator", "threshold", "order", "missing", "frequencies", "region",
               "nicknames", "time", "half_life", "name")  # fmt: skip
FIELD_KEYS = ("kind", "column", *OPTION_KEYS)


def read_spec(path: str | Path) -> Spec:
    """The spec in a TOML file, or of the settings of Splink in a JSON file."""
    if Path(path).suffix.lower() == ".json":
        return read_splink_settings(path)
    try:
        text = read_bytes(Path(path), LARGEST_FILE).decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InputError(f"{path}: not UTF-8 text at byte {error.start}; save it as UTF-8") from error
    return read_spec_text(text, str(path), Path(path).parent)


def read_spec_text(text: str, source: str, folder: Path | None = None) -> Spec:
    """The spec in a TOML text; `source` is named in error messages, and `folder` is where files that it names are."""
    return _SpecFile(text, source, folder).read()


def write_spec(spec: Spec) -> str:
    """The TOML text of a spec."""
    tops: dict[str, Any] = {name: getattr(spec, name) for name in COLUMN_KEYS}
    tops |= {"at_most_one": list(spec.at_most_one) or None, "link_only": spec.link_only or None}
    blocks = ["".join(f"{key} = {_toml(value)}\n" for key, value in tops.items() if value is not None)]
    for comparison in spec.fields:
        settings = _field_settings(comparison).items()
        blocks.append("[[field]]\n" + "".join(f"{key} = {_toml(value)}\n" for key, value in settings))
    if spec.golden:
        rules = "".join(f"{_toml(column)} = {_toml(rule)}\n" for column, rule in spec.golden)
        blocks.append(f"[golden]\n{rules}")
    return "\n".join(blocks)


class _SpecFile:
    """One TOML text being read; knows on which line a setting stands."""

    def __init__(self, text: str, source: str, folder: Path | None = None) -> None:
        self.lines, self.source, self.folder = text.splitlines(), source, folder
        crowded = next((n for n, line in enumerate(self.lines, start=1) if line.count(".") > MOST_DOTS), None)
        if crowded is not None:
            raise InputError(f"{source}, line {crowded}: has more than {MOST_DOTS} dots; no spec needs them")
        try:
            self.content = tomllib.loads(text)
        except tomllib.TOMLDecodeError as error:
            found = re.search(r"\(at line (\d+), column \d+\)", str(error))
            line = int(found.group(1)) if found else len(self.lines)
            reason = str(error).split(" (at ")[0]
            raise InputError(f"{source}, line {line}: not valid TOML ({reason})") from error
        except (ValueError, RecursionError) as error:
            reason = "nested too deeply" if isinstance(error, RecursionError) else str(error)
            raise InputError(f"{source}: not valid TOML ({reason}); mend that place") from error

    def read(self) -> Spec:
        self._check_keys(self.content, SPEC_KEYS, None)
        for key in COLUMN_KEYS:
            if key in self.content and not (isinstance(self.content[key], str) and self.content[key]):
                raise self._error(f"{key} must be the name of a column", key, None)
        self._check_sources()
        fields = [self._field(table, index) for index, table in enumerate(self._tables())]
        self._check_names(fields)
        golden = self.content.get("golden", {})
        if not isinstance(golden, dict) or not all(isinstance(rule, str) for rule in golden.values()):
            raise self._error('golden must be a table of rules, such as  city = "most frequent"', "golden", None)
        given = {key: self.content[key] for key in SPEC_KEYS[:-2] if key in self.content}
        return Spec(fields=fields, golden=golden.items(), **given)

    def _check_sources(self) -> None:
        once = self.content.get("at_most_one", [])
        if not isinstance(once, list) or not all(isinstance(name, str) for name in once):
            raise self._error('at_most_one must be a list of sources, such as ["B"]', "at_most_one", None)
        if not isinstance(self.content.get("link_only", False), bool):
            raise self._error("link_only must be true or false", "link_only", None)
        for key in ("at_most_one", "link_only"):
            if key in self.content and "source" not in self.content:
                raise self._error(f"{key} is about sources; name their column by source", key, None)

    def _tables(self) -> list[dict[str, Any]]:
        tables = self.content.get("field", [])
        if not isinstance(tables, list) or not all(isinstance(table, dict) for table in tables):
            raise self._error("field must be a list of tables, each under [[field]]", "field", None)
        if len(tables) > MOST_FIELDS:
            raise InputError(f"{self.source}: has {len(tables):,} fields, more than {MOST_FIELDS}; leave some out")
        return tables

    def _field(self, table: dict[str, Any], index: int) -> Comparison:
        self._check_keys(table, FIELD_KEYS, index)
        for key in ("kind", "column"):
            if key not in table:
                raise self._error(f"this field has no {key}", "", index)
        self._check_types(table, index)
        settings = dict(table)
        kind, columns = settings.pop("kind"), settings.pop("column")
        if "frequencies" in settings:
            settings["frequencies"] = self._frequencies(settings["frequencies"], index)
        if "nicknames" in settings:
            settings["nicknames"] = self._nicknames(settings["nicknames"], index)
        try:
            return make_comparison(kind, columns, **settings)
        except ComparisonError as error:
            raise self._error(str(error), error.key, index) from error

    def _frequencies(self, given: object, index: int) -> dict[str, int]:
        found = find_frequencies(given, self.folder)
        if found is None:
            raise self._error(f"frequencies must be {WANTED}", "frequencies", index)
        return found

    def _nicknames(self, given: object, index: int) -> list[list[str]]:
        found = find_nicknames(given, self.folder)
        if found is None:
            raise self._error(f"nicknames must be {WANTED_NAMES}", "nicknames", index)
        return found

    def _check_keys(self, table: dict[str, Any], known: Sequence[str], index: int | None) -> None:
        for key in table:
            if key not in known:
                raise self._error(f"unknown key {key!r}; known are {', '.join(known)}", key, index)

    def _check_types(self, table: dict[str, Any], index: int) -> None:
        for key, value in table.items():
            if key in ("scale", "threshold", "half_life"):
                wrong = isinstance(value, bool) or not isinstance(value, int | float)
                wanted = "a number"
            elif key in ("column", "clean", "missing"):
                texts = value if isinstance(value, list) else [value]
                wrong = not all(isinstance(text, str) for text in texts) or (key != "column" and value != texts)
                wanted = {"clean": "a list of steps", "missing": "a list of texts"}.get(
                    key, "a name or a list of names"
                )
            elif key in ("frequencies", "nicknames"):
                continue
            else:
                wrong, wanted = not isinstance(value, str), "a text in quotes"
            if wrong:
                raise self._error(f"{key} must be {wanted}, not {value!r}", key, index)

    def _check_names(self, fields: list[Comparison]) -> None:
        first: dict[str, int] = {}
        for index, comparison in enumerate(fields):
            earlier = first.setdefault(comparison.name, index)
            if earlier != index:
                place = self._line("", earlier)
                raise self._error(
                    f"a field named {comparison.name!r} is already on line {place}; add a name", "", index
                )

    def _error(self, message: str, key: str, index: int | None) -> InputError:
        return InputError(f"{self.source}, line {self._line(key, index)}: {message}")

    def _line(self, key: str, index: int | None) -> int:
        """The line of a key in the index-th [[field]] or at the top, else where that table starts."""
        table, table_line = -1, 1
        for number, line in enumerate(self.lines, start=1):
            if re.match(r"\s*\[\[\s*\"?field", line):
                table += 1
                table_line = number if table == index else table_line
            here = table == (-1 if index is None else index)
            if here and key and re.match(rf"\s*[\"']?{re.escape(key)}[\"']?\s*[=.]", line):
                return number
        if index is None and key:
            return next((n for n, line in enumerate(self.lines, start=1) if key in line), table_line)
        return table_line


def _field_settings(comparison: Comparison) -> dict[str, Any]:
    columns = comparison.columns
    settings: dict[str, Any] = {"kind": comparison.kind, "column": columns[0] if len(columns) == 1 else list(columns)}
    settings |= {key: getattr(comparison, key) for key in OPTION_KEYS}
    settings |= {"clean": list(comparison.clean), "missing": list(comparison.missing) or None}
    if comparison.name == make_comparison(comparison.kind, columns, comparison.of).name:
        del settings["name"]
    return {key: value for key, value in settings.items() if value is not None}


def _toml(value: str | float | list[str] | Frequencies | NameGroups) -> str:
    if isinstance(value, tuple):
        return "[\n" + "".join(f"  {_toml(list(names))},\n" for names in value) + "]"
    if isinstance(value, Frequencies):
        pairs = "".join(f"  [{_toml(str(text))}, {count}],\n" for text, count in value.counts.items())
        return f"[\n{pairs}]"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list):
        return "[" + ", ".join(map(_toml, value)) + "]"
    if not isinstance(value, str):
        return repr(float(value))
    escaped = value.replace("\\", "\\\\").replace('"', '\\"')
    return '"' + re.sub(r"[\x00-\x1f\x7f]", lambda c: f"\\u{ord(c.group()):04X}", escaped) + '"'


PHRASES = {
    "edit": "edit distance of {}",
    "edit_head": "edit distance of the last word of {}",
    "edit_abbreviation": "edit distance of the abbreviation of {}",
    "longest_common_substring": "longest common substring of {}",
    "longest_common_subsequence": "longest common subsequence of {}",
    "jaro_winkler": "Jaro-Winkler distance of {}",
    "token_set": "words that differ in {}",
    "rare_words": "rare words that differ in {}",
    "exact": "whether {} is equal",
    "absolute": "difference of {}",
    "count_difference": "difference in how common {} is",
    "shared_coauthors": "names in common in {}",
    "person_name": "name of a person in {}",
    "company": "name of a company in {}",
    "title": "title in {}",
    "proper_noun": "name in the text of {}",
    "date": "date in {}",
    "phone": "phone in {}",
    "email": "email in {}",
    "url": "web address in {}",
    "address": "address in {}",
    "code": "code in {}",
    "codes_in_text": "codes inside {}",
    "relative": "relative difference of {}",
    "duration": "difference of lengths in {}",
    "year": "years between {}",
    "venue": "venue in {}, words shortened or an acronym",
    "pages": "pages of {}, the last one cut short or left out",
    "geo": "kilometres between {}",
    "cosine": "angle between vectors in {}",
    "category": "whether {} is the same category",
    "tfidf": "words of {} by rarity",
    "qgram_tfidf": "letters of {} by rarity",
    "soft_tokens": "words of {}, near ones too, by rarity",
    "contained_tokens": "words of {} that are in the other",
    "set_overlap": "members in common in {}",
    "people_overlap": "people in common in {}",
    "acronym": "acronym of {}",
}
PARTS = {
    "first_of_list": "the first of {}",
    "head": "the last word of {}",
    "abbreviation": "the abbreviation of {}",
    "digits": "the digits of {}",
    "year": "the year of {}",
}


def in_words(comparison: Comparison) -> str:
    """What a comparison compares, as a person would say it."""
    what = " and ".join(comparison.columns)
    what = PARTS[comparison.of].format(what) if comparison.of in PARTS else what
    said = PHRASES.get(comparison.kind, comparison.kind + " of {}").format(what)
    return said if comparison.time is None else f"{said}, the less the farther apart in {comparison.time}"


def commented_toml(spec: Spec, records: Records) -> str:
    """The TOML text of a spec, each field with what it compares and how its columns are filled."""
    opening, *fields = spec.to_toml().split("[[field]]\n")
    notes = [_note(comparison, records) for comparison in spec.fields]
    blocks = [f"# {note}\n[[field]]\n{text}" for note, text in zip(notes, fields, strict=True)]
    return "\n".join(_heading(spec, records)) + f"\n{opening}" + "".join(blocks)


def _heading(spec: Spec, records: Records) -> Iterator[str]:
    yield f"# How {len(records)} records are compared: entity is the column of known clusters, id that of names."
    yield "# Change, add or remove fields, then fit again with  --spec  and the name of this file."
    used = {name for comparison in spec.fields for name in comparison.columns_read}
    columns = [name for name in records.names if name not in {spec.entity, spec.id, spec.group, spec.source}]
    entity = spec.entity if spec.entity in records.names else None
    for row in propose_columns(records, columns, entity, group=spec.group) if not used.issuperset(columns) else ():
        if row.column in used:
            continue
        why = f"{row.note}; " if row.note and not row.comparisons else ""
        yield f"# Not compared: {_one_line(f'{row.column} ({why}{_filled(records, row.column)})')}."


def _note(comparison: Comparison, records: Records) -> str:
    filled = "; ".join(f"{name}: {_filled(records, name)}" for name in comparison.columns_read)
    return _one_line(f"{in_words(comparison)} ({filled})")


def _filled(records: Records, name: str) -> str:
    texts = [text for cell in records[name] if (text := (cell_text(cell) or "").strip())]
    missing = 1 - len(texts) / max(1, len(records))
    distinct = len(set(texts)) / max(1, len(texts))
    return f"{missing:.0%} missing, {distinct:.0%} distinct"


def _one_line(text: str) -> str:
    # A control character would end the comment, or be no TOML at all.
    return "".join(character if character.isprintable() else " " for character in text)


MARK = "# As proposed, and not edited since: "


def mark_of_proposal(text: str) -> str:
    """A first line by which a proposed spec is known as long as nobody has changed it."""
    return f"{MARK}{hashlib.sha256(text.encode()).hexdigest()[:16]}\n"


def is_proposal(text: str) -> bool:
    """Whether a spec is as it was proposed."""
    mark, _, rest = text.partition("\n")
    return f"{mark}\n" == mark_of_proposal(rest)


logger = logging.getLogger(__name__)

LARGEST_SETTINGS = 16 << 20
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
        settings = parse_json(read_bytes(path, LARGEST_SETTINGS).decode("utf-8-sig"))
    except ValueError as error:
        if isinstance(error, InputError):
            raise
        raise InputError(f"{path}: is not JSON ({error}); give a spec (.toml) or settings of Splink") from error
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
        raise InputError(f"{source}: comparison {number} has no list of levels; give settings as Splink saves them")
    texts = [str(level.get("sql_condition", "")) for level in levels if not level.get("is_null_level")]
    return "\n".join(texts)[:LONGEST_CONDITIONS]
