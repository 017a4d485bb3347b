"""Rules: the descriptions of which pairs of records are worth comparing; nothing is computed here."""

from __future__ import annotations

import json
import math
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from scdp.blocking import Expression, text
from scdp.errors import InputError

MAX_BLOCK = 500
WINDOW = 10
# Among more records than this, the tokens of an overlap are bounded by so much less: to look through the records of the
# more common ones takes ten times as long as all the rest, and finds a few pairs in a thousand.
MANY_RECORDS, LESS_COMMON = 50_000, 5


def token_bound(max_block: int, n_records: int) -> int:
    """How many records may have a token of an overlap, for it to count."""
    return max_block if n_records <= MANY_RECORDS else max(max_block // LESS_COMMON, 2)


@dataclass(frozen=True)
class Equal:
    """Pairs that agree on every key. A record that misses one is in no pair; a missing value matches nothing."""

    keys: tuple[Expression, ...]

    def __post_init__(self) -> None:
        _check_keys(self.keys, "equal")

    @property
    def columns(self) -> tuple[str, ...]:
        return _list_columns(self.keys)

    def __str__(self) -> str:
        return f"equal({', '.join(map(str, self.keys))})"


@dataclass(frozen=True)
class Identical:
    """Pairs that agree in all these columns, missing cells included, with at least one cell there."""

    columns: tuple[str, ...]

    def __post_init__(self) -> None:
        _check_keys(tuple(text(column) for column in self.columns), "identical")

    @property
    def keys(self) -> tuple[Expression, ...]:
        return tuple(text(column) for column in self.columns)

    def __str__(self) -> str:
        return "identical records"


@dataclass(frozen=True)
class Overlap:
    """Pairs whose shared tokens or q-grams have a total rarity of at least `rarity`.

    Among n records the rarity of a token that df of them have is log(n / df) / log(n): 1 for the rarest, 0
    for one that all have. Pairs that share tokens of total rarity r by chance are about n^(1 - r) a record.
    Tokens that more than the blocking's `max_block` records have are left out, and among more than 50,000 records those
    that more than a fifth of that have.
    """

    key: Expression
    rarity: float

    def __post_init__(self) -> None:
        _check_keys((self.key,), "overlap")
        if not self.key.exploded:
            raise InputError(f"blocking: overlap of {self.key} has one key a record; use tokens or qgrams")
        number = isinstance(self.rarity, int | float) and not isinstance(self.rarity, bool)
        if not number or not 0 < self.rarity < math.inf:
            raise InputError(f"blocking: rarity is {self.rarity!r}; use a number above 0")

    @property
    def keys(self) -> tuple[Expression, ...]:
        return (self.key,)

    @property
    def columns(self) -> tuple[str, ...]:
        return self.key.columns

    def __str__(self) -> str:
        return f"overlap({self.key}, rarity {self.rarity:g})"


@dataclass(frozen=True)
class Neighbourhood:
    """Pairs at most `window` places apart when records are sorted by the keys; ties are scattered.

    A record that misses the first key is left out; a missing later key sorts last.
    """

    keys: tuple[Expression, ...]
    window: int = WINDOW

    def __post_init__(self) -> None:
        _check_keys(self.keys, "sorted neighbourhood")
        if any(key.exploded for key in self.keys):
            raise InputError("blocking: records cannot be sorted by tokens or q-grams; use another part")
        check_count("window", self.window)

    @property
    def columns(self) -> tuple[str, ...]:
        return _list_columns(self.keys)

    def __str__(self) -> str:
        return f"sorted({', '.join(map(str, self.keys))}; window {self.window})"


Rule = Equal | Identical | Overlap | Neighbourhood


@dataclass(frozen=True)
class Blocking:
    """The union of its rules, each pair once; and what is one link away from a pair of the union.

    `links` are rules so strict that their pairs are almost surely the same: if a and b are candidates and b
    and c are linked, a and c are candidates too. Nothing is linked through a record of more than 50 links.

    `max_block` bounds what a rule may cost: the records of a larger block are only paired within `window`
    places of each other, sorted by the blocking's columns; tokens of an overlap more common are left out.

    Parameters
    ----------
    rules : tuple of rules
        What `equal`, `overlap`, `neighbourhood` and `identical` make.
    links : tuple of rules
        Rules whose pairs are almost surely the same.
    max_block : int
        The largest block of which all pairs are made.
    window : int
        How many places apart the records of a larger block are still paired.

    Example
    -------
    >>> from scdp.blocking import prefix
    >>> print(Blocking((equal("phone"), equal("surname", prefix("first_name", 1)))))
    equal(phone)
    equal(surname, prefix(first_name, 1))
    """

    rules: tuple[Rule, ...]
    links: tuple[Rule, ...] = ()
    max_block: int = MAX_BLOCK
    window: int = WINDOW

    def __post_init__(self) -> None:
        if not self.rules:
            raise InputError("blocking: there are no rules; give at least one")
        for rule in self.all_rules:
            if not isinstance(rule, Rule):
                raise InputError(f"blocking: {rule!r} is not a rule; use equal, overlap, neighbourhood, ...")
        check_count("max_block", self.max_block, least=2)
        check_count("window", self.window)

    @property
    def all_rules(self) -> tuple[Rule, ...]:
        """The rules and the links, each once: linked records are candidates."""
        return tuple(dict.fromkeys((*self.rules, *self.links)))

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns it reads, in the order in which they are first mentioned."""
        return tuple(dict.fromkeys(column for rule in self.all_rules for column in rule.columns))

    def __str__(self) -> str:
        return "\n".join([*map(str, self.rules), *(f"linked by {rule}" for rule in self.links)])

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON, which `from_dict` reads back to an equal blocking.

        Returns
        -------
        dict

        Example
        -------
        >>> Blocking((equal("phone"),)).to_dict()["rule"]
        [{'kind': 'equal', 'keys': [{'part': 'text', 'columns': ['phone']}]}]
        """
        return blocking_to_dict(self)

    @classmethod
    def from_dict(cls, content: Mapping[str, Any]) -> Blocking:
        """The blocking that `to_dict` described.

        Parameters
        ----------
        content : mapping
            What `to_dict` gave.

        Returns
        -------
        Blocking

        Example
        -------
        >>> blocking = Blocking((equal("phone"),))
        >>> Blocking.from_dict(blocking.to_dict()) == blocking
        True
        """
        return blocking_from_dict(content)

    def to_toml(self) -> str:
        r"""The text of a file that `from_toml` reads back to an equal blocking.

        Returns
        -------
        str

        Example
        -------
        >>> print(Blocking((equal("phone"),)).to_toml().split("\n\n")[1].strip())
        [[rule]]
        kind = "equal"
        keys = [{part = "text", columns = ["phone"]}]
        """
        return blocking_to_toml(self)

    @classmethod
    def from_toml(cls, path: str | Path) -> Blocking:
        """Read a blocking; a mistake in the file is one sentence with the file and the rule.

        Parameters
        ----------
        path : str or path
            The file.

        Returns
        -------
        Blocking

        Example
        -------
        >>> from pathlib import Path
        >>> from tempfile import TemporaryDirectory
        >>> blocking = Blocking((equal("phone"),))
        >>> with TemporaryDirectory() as folder:
        ...     path = Path(folder) / "blocking.toml"
        ...     _ = path.write_text(blocking.to_toml())
        ...     Blocking.from_toml(path) == blocking
        True
        """
        return read_blocking(path)


def equal(*keys: str | Expression) -> Equal:
    """Agreement on all keys, as in equal("surname", prefix("first_name", 1)); text names a column.

    Parameters
    ----------
    *keys : str or Expression
        What records are compared by; text names a column.

    Returns
    -------
    Equal

    Example
    -------
    >>> from scdp.blocking import prefix
    >>> print(equal("surname", prefix("first_name", 1)))
    equal(surname, prefix(first_name, 1))
    """
    return Equal(_make_expressions(keys))


def overlap(key: Expression, rarity: float = 1.0) -> Overlap:
    """A canopy: enough shared tokens or q-grams, as in overlap(tokens("title"), rarity=1.5).

    Parameters
    ----------
    key : Expression
        Words or q-grams of a column.
    rarity : float
        The total rarity that shared ones must have.

    Returns
    -------
    Overlap

    Example
    -------
    >>> from scdp.blocking import tokens
    >>> print(overlap(tokens("title"), rarity=1.5))
    overlap(tokens(title), rarity 1.5)
    """
    return Overlap(key, rarity)


def neighbourhood(*keys: str | Expression, window: int = WINDOW) -> Neighbourhood:
    """Sorted neighbourhood: near each other when sorted by the keys.

    Parameters
    ----------
    *keys : str or Expression
        What records are compared by; text names a column.
    window : int
        How many places apart two records may be.

    Returns
    -------
    Neighbourhood

    Example
    -------
    >>> print(neighbourhood("surname", window=5))
    sorted(surname; window 5)
    """
    return Neighbourhood(_make_expressions(keys), window)


def identical(*columns: str) -> Identical:
    """Exact duplicates in these columns, missing cells included.

    Parameters
    ----------
    *columns : str
        The names of the columns.

    Returns
    -------
    Identical

    Example
    -------
    >>> print(identical("first", "last"))
    identical records
    """
    return Identical(columns)


def check_count(name: str, count: object, least: int = 1) -> None:
    """Refuse a setting that is not a whole number of at least `least`."""
    if isinstance(count, bool) or not isinstance(count, int) or count < least:
        raise InputError(f"blocking: {name} is {count!r}; use a whole number of {least} or more")


def _make_expressions(keys: tuple[str | Expression, ...]) -> tuple[Expression, ...]:
    return tuple(text(key) if isinstance(key, str) else key for key in keys)


def _list_columns(keys: tuple[Expression, ...]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(column for key in keys for column in key.columns))


def _check_keys(keys: tuple[Expression, ...], rule: str) -> None:
    if not isinstance(keys, tuple) or not keys:
        raise InputError(f"blocking: a rule of kind {rule} has no key; give a column or an expression")
    for key in keys:
        if not isinstance(key, Expression):
            raise InputError(f"blocking: {key!r} is not an expression; use a column's name, prefix, ...")


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
    _check_names(content, ("max_block", "window", "rule", "link"), source)
    rules = {f"{name}s": _rules_from_list(content.get(name, []), name, source) for name in ("rule", "link")}
    settings = {name: content[name] for name in ("max_block", "window") if name in content}
    return _build_rule(Blocking, {**rules, **settings}, source)


def _rules_from_list(tables: object, name: str, source: str) -> tuple[Rule, ...]:
    if not isinstance(tables, list):
        raise InputError(f"{source}: {name} is {tables!r}; write a list of tables, each under [[{name}]]")
    return tuple(_rule_from_dict(table, f"{source}, {name} {number}") for number, table in enumerate(tables, 1))


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
    return {"kind": kind} | {name: _to_plain(getattr(rule, name)) for name in KINDS[kind][1]}


def _to_plain(value: Any) -> Any:
    if isinstance(value, Expression):
        named = {"part": value.part, "columns": list(value.columns)}
        return named if value.length is None else named | {"length": value.length}
    return [_to_plain(entry) for entry in value] if isinstance(value, tuple) else value


def _rule_from_dict(table: object, place: str) -> Rule:
    if not isinstance(table, Mapping) or table.get("kind") not in KINDS:
        raise InputError(f"{place}: it has no known kind; the kinds are {', '.join(KINDS)}")
    rule, names = KINDS[table["kind"]]
    _check_names(table, ("kind", *names), place)
    settings = {name: table[name] for name in names if name in table}
    for name in ("keys", "columns"):
        if name in settings:
            settings[name] = _read_list(settings[name], name, place)
    if "keys" in settings:
        settings["keys"] = tuple(_read_expression(value, place) for value in settings["keys"])
    if "key" in settings:
        settings["key"] = _read_expression(settings["key"], place)
    return _build_rule(rule, settings, place)


def _read_expression(value: object, place: str) -> Expression:
    if not isinstance(value, Mapping):
        raise InputError(f"{place}: {value!r} is not a key; write {{part = ..., columns = [...]}}")
    _check_names(value, ("part", "columns", "length"), place)
    return _build_rule(Expression, {**value, "columns": _read_list(value.get("columns"), "columns", place)}, place)


def _read_list(value: object, name: str, place: str) -> tuple[Any, ...]:
    if not isinstance(value, list):
        raise InputError(f"{place}: {name} is {value!r}; write a list")
    return tuple(value)


def _build_rule(kind: type[Any], settings: dict[str, Any], place: str) -> Any:
    try:
        return kind(**settings)
    except InputError as error:
        raise InputError(str(error).replace("blocking", place, 1)) from error
    except TypeError as error:
        missing = str(error).split(": ")[-1]
        raise InputError(f"{place}: a setting is missing: {missing}") from error


def _check_names(table: Mapping[str, Any], known: tuple[str, ...], place: str) -> None:
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
