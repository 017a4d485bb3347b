"""The plan of the package: how many modules a folder has, how long they are, and that names are used once."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from functools import cache
from pathlib import Path

import pytest

import scdp

ROOT = Path(scdp.__file__).parent
REPOSITORY = Path(__file__).parents[1]
MOST_MODULES, MOST_IN_ALL = 14, 150
# Without docstrings: those of public names have sections and examples.
MOST_CODE_LINES = 400
# Words of our own that the field has other words for.
OWN_WORDS = re.compile(r"restaurant|seating|sieve|sifting|\bparty|parties|\brung", re.IGNORECASE)
LITERATURE = re.compile(r"Chinese[\s-]+restaurant", re.IGNORECASE)
# Names of things in data: a set of restaurants, and words of columns and cells.
NAMES_OF_THINGS = {
    "docs/": "restaurant",
    "src/scdp/paper/__init__.py": "restaurant",
    "src/scdp/paper/files.py": "restaurant",
    "src/scdp/paper/datasets.py": "restaurant",
    "src/scdp/table/forms.py": "restaurant",
    "src/scdp/compare/content.py": "party",
}
MODULES = sorted(ROOT.rglob("*.py"))


@cache
def parse(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def count_code_lines(path: Path) -> int:
    documented = ast.Module | ast.ClassDef | ast.FunctionDef
    docstrings = 0
    for node in ast.walk(parse(path)):
        if isinstance(node, documented) and ast.get_docstring(node) is not None:
            docstrings += node.body[0].end_lineno - node.body[0].lineno + 1
    return len(path.read_text(encoding="utf-8").splitlines()) - docstrings


def test_no_folder_has_too_many_modules():
    folders = defaultdict(list)
    for path in MODULES:
        if path.name != "__init__.py":
            folders[path.parent].append(path.name)
    assert not {str(folder): names for folder, names in folders.items() if len(names) > MOST_MODULES}


def test_the_package_has_no_more_rooms_than_a_reader_can_learn():
    assert len(MODULES) <= MOST_IN_ALL


def test_no_module_is_too_long():
    lines = {str(path.relative_to(ROOT)): count_code_lines(path) for path in MODULES}
    assert not {name: count for name, count in lines.items() if count > MOST_CODE_LINES}


def test_no_two_classes_have_one_name():
    places = defaultdict(list)
    for path in MODULES:
        for node in ast.walk(parse(path)):
            if isinstance(node, ast.ClassDef):
                places[node.name].append(str(path.relative_to(ROOT)))
    assert not {name: found for name, found in places.items() if len(found) > 1}


PAGES = sorted([*MODULES, *(REPOSITORY / "docs").rglob("*.md")])


@pytest.mark.parametrize("word", ["restaurant", "Sieve", "third party", "parties", "a rung"])
def test_our_own_words_are_found(word):
    assert OWN_WORDS.search(f"the {word} of it")


def test_the_words_are_those_of_the_field():
    found = {}
    for path in PAGES:
        name = path.relative_to(REPOSITORY).as_posix()
        text = LITERATURE.sub("", path.read_text(encoding="utf-8"))
        words = {match.group().lower() for match in OWN_WORDS.finditer(text)}
        words -= {word for place, word in NAMES_OF_THINGS.items() if name.startswith(place)}
        if words:
            found[name] = sorted(words)
    assert not found


def test_nothing_is_left_to_be_implemented():
    """What subclasses must have is abstract, so that what lacks it cannot be made."""
    raised = [str(path) for path in MODULES if "NotImplementedError" in path.read_text(encoding="utf-8")]
    assert not raised


def test_the_architecture_names_files_and_things_that_are_there():
    text = (REPOSITORY / "docs" / "architecture.md").read_text(encoding="utf-8")
    files = re.findall(r"`([\w/]+\.py)`", text)
    assert len(files) > 15
    for name in files:
        assert (ROOT / name).exists() or (REPOSITORY / name).exists() or (ROOT / "linkage/training" / name).exists(), (
            name
        )
    # "`Class.function` (`file.py`" or "`function` (`file.py`": the file defines it, or inherits it.
    for thing, name in re.findall(r"`([\w.]+)` \(`([\w/]+\.py)`", text):
        names = {node.name for node in ast.walk(parse(ROOT / name)) if hasattr(node, "name")}
        assert thing.partition(".")[0] in names, f"{thing} is not in {name}"
