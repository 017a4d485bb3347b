"""Make the pages of the site: the documents here and a reference from docstrings enter; build/docs leaves.

    python docs/site.py          # then  zensical build  makes site/ of them

`make docs` does both. Nothing is fetched, and no page asks the network for anything.
"""

from __future__ import annotations

import inspect
import re
import shutil
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

import click

from scdp.cli import main

ROOT = Path(__file__).parents[1]
PAGES = ROOT / "build" / "docs"
# The modules that users import, in the order of the reference.
MODULES = (
    "scdp",
    "scdp.compare",
    "scdp.metrics",
    "scdp.datasets",
    "scdp.posterior",
    "scdp.blocking",
    "scdp.engines",
    "scdp.table",
    "scdp.table.readers",
    "scdp.table.decisions",
    "scdp.errors",
)
SECTIONS = (
    "Parameters", "Returns", "Yields", "Raises", "Attributes", "Examples", "Example", "Notes", "See Also",
)  # fmt: skip
# Files of the repository that have no copy in the site.
OUTSIDE = ("src/", "tests/", "benchmarks/", ".ci/", "Makefile", "LIC", "CITATION", "README", "pyproject")


def public_names(module: ModuleType) -> list[str]:
    """What `__all__` lists, or the functions and classes that the module defines."""
    listed = getattr(module, "__all__", None)
    if listed is not None:
        return [name for name in listed if not name.startswith("__")]
    own = [
        name
        for name, value in vars(module).items()
        if not name.startswith("_") and callable(value) and getattr(value, "__module__", "") == module.__name__
    ]
    return [name for name in own if inspect.isfunction(vars(module)[name]) or inspect.isclass(vars(module)[name])]


def module_page(name: str) -> str:
    """The page of a module: a part for each public name."""
    module = import_module(name)
    parts = [f"# {name}\n\n{rendered(inspect.getdoc(module) or '')}\n"]
    for each in public_names(module):
        value = getattr(module, each)
        if inspect.ismodule(value):
            parts.append(f"## {each}\n\nA module: see [{name}.{each}]({name}.{each}.md).\n")
        elif inspect.isclass(value):
            parts.append(class_part(each, value))
        elif callable(value):
            parts.append(function_part(each, value, "##"))
        else:
            parts.append(f"## {each}\n\n`{value!r:.200}`\n")
    return "\n".join(parts)


def class_part(name: str, value: type) -> str:
    """A class with its public methods and properties."""
    parts = [function_part(name, value, "##")]
    for base in [value, *value.__mro__[1:]]:
        if base.__module__.split(".")[0] != "scdp":
            continue
        for each, member in vars(base).items():
            if each.startswith("_") or f"### {each}" in "".join(parts):
                continue
            inner = member.__func__ if isinstance(member, classmethod | staticmethod) else member
            if isinstance(inner, property) or hasattr(inner, "func"):
                getter = inner.fget if isinstance(inner, property) else inner.func
                parts.append(f"### {each}\n\n{rendered(inspect.getdoc(getter) or '')}\n")
            elif inspect.isfunction(inner):
                parts.append(function_part(each, inner, "###"))
    return "\n".join(parts)


def function_part(name: str, value: Any, mark: str) -> str:
    """Signature and docstring."""
    call = f"{name}{re.sub(r'<[^<>]* at 0x[0-9a-f]+>', '...', signature_of(value))}"
    return f"{mark} {name}\n\n```text\n{wrapped(call)}\n```\n\n{rendered(inspect.getdoc(value) or '')}\n"


class Bare(str):
    """An annotation that is shown without quotes."""

    def __repr__(self) -> str:
        return str(self)


def signature_of(value: Any) -> str:
    """Parameters with their types and defaults; of a class, without what its constructor returns."""
    try:
        found = inspect.signature(value)
    except (TypeError, ValueError):
        return "(...)"
    bare = [
        one.replace(annotation=Bare(one.annotation)) if isinstance(one.annotation, str) else one
        for one in found.parameters.values()
    ]
    given = found.return_annotation
    given = found.empty if inspect.isclass(value) else Bare(given) if isinstance(given, str) else given
    return str(found.replace(parameters=bare, return_annotation=given))


def wrapped(call: str, width: int = 96) -> str:
    """A long call with an argument a line."""
    if len(call) <= width:
        return call
    head, _, rest = call.partition("(")
    depth, parts, start = 0, [], 0
    for place, character in enumerate(rest):
        depth += (character in "([{") - (character in ")]}")
        if character == "," and depth == 0:
            parts.append(rest[start:place].strip())
            start = place + 1
    return f"{head}(\n    " + ",\n    ".join([*parts, rest[start:].strip()])


def rendered(text: str) -> str:
    """A numpydoc text as Markdown: sections become bold words, parameters a list, examples code."""
    lines = text.replace("<", "&lt;").split("\n")
    found, section, place = [], "", 0
    while place < len(lines):
        line = lines[place]
        below = lines[place + 1] if place + 1 < len(lines) else ""
        if line.strip() in SECTIONS and set(below.strip()) == {"-"}:
            section = line.strip()
            found += ["", f"**{section}**", ""]
            place += 2
            continue
        if line.lstrip().startswith(">>>"):
            block = []
            while place < len(lines) and lines[place].strip():
                block.append(lines[place].replace("&lt;", "<"))
                place += 1
            found += ["", "```pycon", *block, "```", ""]
            continue
        if section in ("Parameters", "Attributes", "Returns", "Raises") and line and not line[0].isspace():
            name, _, kind = line.partition(" : ")
            found.append(f"- `{name.strip()}`" + (f" ({kind.strip()})" if kind else "") + ":")
        elif section in ("Parameters", "Attributes", "Returns", "Raises") and line.strip():
            found.append(f"    {line.strip()}")
        else:
            found.append(line)
        place += 1
    return "\n".join(found)


def command_page(command: click.Group) -> str:
    """The page of the command line: the help of every command, as it prints."""
    parts = [COMMANDS_HEAD, f"## scdp\n\n```text\n{help_of(command, ['scdp'])}\n```\n"]
    for name in command.list_commands(click.Context(command)):
        each = command.get_command(click.Context(command), name)
        assert each is not None
        parts.append(f"## scdp {name}\n\n```text\n{help_of(each, ['scdp', name])}\n```\n")
        if isinstance(each, click.Group):
            parts += [
                f"### scdp {name} {inner}\n\n```text\n{help_of(sub, ['scdp', name, inner])}\n```\n"
                for inner, sub in each.commands.items()
            ]
    return "\n".join(parts)


COMMANDS_HEAD = """# The command line

Every command prints this by `--help`. Results go to files or to standard output, and all other words to standard error.

| exit code | meaning |
|---|---|
| 0 | done; the result is whole |
| 1 | a fault of scdp (please report it; `SCDP_DEBUG=1` shows where) |
| 2 | something is wrong with the input, an option or the disk; one sentence says what, where and how to mend it |
| 130 | interrupted by Ctrl-C; no file is left half-written |
"""


def help_of(command: click.Command, names: list[str]) -> str:
    """What `--help` prints."""
    context = click.Context(command, info_name=" ".join(names), max_content_width=96, terminal_width=96)
    return command.get_help(context)


def make_pages(target: Path = PAGES) -> None:
    """All pages, in a new folder."""
    shutil.rmtree(target, ignore_errors=True)
    shutil.copytree(ROOT / "docs", target, ignore=shutil.ignore_patterns("*.py", "__pycache__"))
    for name in ("CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md"):
        (target / name.lower()).write_text((ROOT / name).read_text(encoding="utf-8"), encoding="utf-8")
    for page in target.rglob("*.md"):
        text = page.read_text(encoding="utf-8")
        page.write_text(relinked(text, page.relative_to(target)), encoding="utf-8")
    reference = target / "reference"
    reference.mkdir(exist_ok=True)
    (reference / "command-line.md").write_text(command_page(main), encoding="utf-8")  # type: ignore[arg-type]
    for name in MODULES:
        (reference / f"{name}.md").write_text(module_page(name), encoding="utf-8")


def relinked(text: str, page: Path) -> str:
    """Links to files of the repository lead to their copies here, or become plain words where there is none."""
    up = "../" * (len(page.parts) - 1)

    def new(match: re.Match[str]) -> str:
        words, link = match.groups()
        plain = re.sub(r"^(\.\./)+|^\./", "", link)
        if plain in ("CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md"):
            return f"[{words}]({up}{plain.lower()})"
        if plain.startswith("docs/"):
            return f"[{words}]({up}{plain.removeprefix('docs/')})"
        return words if plain.startswith(OUTSIDE) else match[0]

    return re.sub(r"(?<!!)\[([^\]]+)\]\(([^)\s:]+)\)", new, text)


if __name__ == "__main__":
    make_pages()
