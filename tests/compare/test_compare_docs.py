"""The examples of docs/comparisons.md run, and its table names every comparison with the range it states."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from scdp.compare import kinds
from scdp.table.spec import Spec

TEXT = (Path(__file__).parents[2] / "docs" / "comparisons.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("example", re.findall(r"```python\n(.*?)```", TEXT, re.DOTALL))
def test_examples_run(example, capsys, monkeypatch):
    monkeypatch.setattr(kinds, "_registered", {})
    exec(compile(example, "docs/comparisons.md", "exec"), {})
    assert "[" in capsys.readouterr().out


def test_the_spec_file_is_valid(tmp_path):
    path = tmp_path / "spec.toml"
    path.write_text(re.findall(r"```toml\n(.*?)```", TEXT, re.DOTALL)[0])
    assert Spec.from_toml(path).names == ("edit(first_of_list(author))", "absolute(year)")


def test_the_table_is_complete():
    rows = dict(re.findall(r"^\| `(\w+)` \|.*\| (.*?) \|$", TEXT.split("## Nanoseconds")[0], re.MULTILINE))
    assert rows == {name: kind.range for name, kind in kinds.BUILT_IN.items()}
