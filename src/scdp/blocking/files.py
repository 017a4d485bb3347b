"""Blockings as dicts of plain values, for JSON, and as TOML; a mistake in one is one sentence with its place."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from scdp.blocking.expressions import Expression
from scdp.blocking.rules import Blocking, Equal, Identical, Neighbourhood, Overlap, Rule
from scdp.errors import InputError

# The settings of each kind of rule: "keys" and "key" are expressions, the rest is taken as it is.
KINDS: dict[str, tuple[type[Rule], tuple[str, ...]]] = {
    "equal": (Equal, ("keys",)),
    "identical": (Identical, ("columns",)),
    "overlap": (Overlap, ("key", "rarity")),
    "neighbourhood": (Neighbourhood, ("keys", "window")),
}
_KIND_OF = {rule: kind for kind, (rule, _) in KINDS.items()}


def blocking_to_dict(blocking: Blocking) -> dict[str, Any]:
    """Plain values that `blocking_from_dict` reads back to an equal blocking."""
    rules = {"rule": blocking.rules, "link": blocking.links}
    return {"max_block": blocking.max_block, "window": blocking.window} | {
        name: [_rule_to_dict(rule) for rule in found] for name, found in rules.items()
    }


def blocking_from_dict(content: Mapping[str, Any], source: str = "blocking") -> Blocking:
    """The blocking that a dict describes; `source` is named in messages."""
    _check_keys(content, ("max_block", "window", "rule", "link"), source)
    rules = {f"{name}s": _rules_from_list(content.get(name, []), name, source) for name in ("rule", "link")}
    settings = {name: content[name] for name in ("max_block", "window") if name in content}
    return _made(Blocking, {**rules, **settings}, source)


def _rules_from_list(tables: object, name: str, source: str) -> tuple[Rule, ...]:
    if not isinstance(tables, list):
        raise InputError(f"{source}: {name} is {tables!r}; write a list of tables, each under [[{name}]]")
    return tuple(
        _rule_from_dict(table, f"{source}, {name} {number}") for number, table in enumerate(tables, 1)
    )


def blocking_to_toml(blocking: Blocking) -> str:
    """The text of a file that `read_blocking` reads back to an equal blocking."""
    content = blocking_to_dict(blocking)
    lines = [f"{name} = {content[name]}" for name in ("max_block", "window")]
    for kind in ("rule", "link"):
        for rule in content[kind]:
            lines += ["", f"[[{kind}]]", *(f"{name} = {_toml(value)}" for name, value in rule.items())]
    return "\n".join(lines) + "\n"


def read_blocking(path: str | Path) -> Blocking:
    """The blocking in a TOML file."""
    try:
        content = tomllib.loads(Path(path).read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InputError(f"{path}: not valid TOML ({error}); mend that place") from error
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror})") from error
    return blocking_from_dict(content, str(path))


def _rule_to_dict(rule: Rule) -> dict[str, Any]:
    kind = _KIND_OF[type(rule)]
    return {"kind": kind} | {name: _plain(getattr(rule, name)) for name in KINDS[kind][1]}


def _plain(value: Any) -> Any:
    if isinstance(value, Expression):
        named = {"part": value.part, "columns": list(value.columns)}
        return named if value.length is None else named | {"length": value.length}
    return [_plain(entry) for entry in value] if isinstance(value, tuple) else value


def _rule_from_dict(table: object, place: str) -> Rule:
    if not isinstance(table, Mapping) or table.get("kind") not in KINDS:
        raise InputError(f"{place}: it has no known kind; the kinds are {', '.join(KINDS)}")
    rule, names = KINDS[table["kind"]]
    _check_keys(table, ("kind", *names), place)
    settings = {name: table[name] for name in names if name in table}
    for name in ("keys", "columns"):
        if name in settings:
            settings[name] = _listed(settings[name], name, place)
    if "keys" in settings:
        settings["keys"] = tuple(_expression(value, place) for value in settings["keys"])
    if "key" in settings:
        settings["key"] = _expression(settings["key"], place)
    return _made(rule, settings, place)


def _expression(value: object, place: str) -> Expression:
    if not isinstance(value, Mapping):
        raise InputError(f"{place}: {value!r} is not a key; write {{part = ..., columns = [...]}}")
    _check_keys(value, ("part", "columns", "length"), place)
    return _made(Expression, {**value, "columns": _listed(value.get("columns"), "columns", place)}, place)


def _listed(value: object, name: str, place: str) -> tuple[Any, ...]:
    if not isinstance(value, list):
        raise InputError(f"{place}: {name} is {value!r}; write a list")
    return tuple(value)


def _made(kind: type[Any], settings: dict[str, Any], place: str) -> Any:
    try:
        return kind(**settings)
    except InputError as error:
        raise InputError(str(error).replace("blocking", place, 1)) from error
    except TypeError as error:
        missing = str(error).split(": ")[-1]
        raise InputError(f"{place}: a setting is missing: {missing}") from error


def _check_keys(table: Mapping[str, Any], known: tuple[str, ...], place: str) -> None:
    for name in table:
        if name not in known:
            raise InputError(f"{place}: unknown setting {name!r}; known are {', '.join(known)}")


def _toml(value: Any) -> str:
    if isinstance(value, dict):
        return "{" + ", ".join(f"{name} = {_toml(entry)}" for name, entry in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(_toml, value)) + "]"
    if isinstance(value, str):
        # JSON's quoting is TOML's, but for the delete character, which TOML wants escaped.
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    return repr(value)
