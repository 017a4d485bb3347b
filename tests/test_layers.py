"""The house rule: imports point one way, from what people see down to what enters."""

from __future__ import annotations

import ast
from pathlib import Path

import scdp

ROOT = Path(scdp.__file__).parent

# Lowest first. A module may import from its own layer and from those before it.
LAYERS = [
    ["errors", "_compile", "_typing", "_parallel", "hashing", "metrics", "partitions", "texts", "io"],
    ["table", "compare"],
    ["datasets"],
    ["blocking"],
    ["chains"],
    ["posterior"],
    ["conditions"],
    ["linkage"],
    ["estimators"],
    ["engines"],
    ["chains_model", "resolver", "resolver_fit"],
    ["store"],
    ["results"],
    ["report", "review"],
    ["paper"],
    ["cli"],
]
LEVEL = {name: level for level, names in enumerate(LAYERS) for name in names}


def top_level(path: Path) -> str:
    relative = path.relative_to(ROOT)
    return relative.parts[0].removesuffix(".py")


def imported_parts(path: Path) -> set[str]:
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.level:
            raise AssertionError(f"{path}: relative imports hide the layer; import from scdp")
        names = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module == "scdp":
            names = [f"scdp.{alias.name}" for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            names = [node.module]
        found |= {name.split(".")[1] for name in names if name.startswith("scdp.")}
    return found - {"__version__"}


def modules() -> list[Path]:
    return [path for path in ROOT.rglob("*.py") if path != ROOT / "__init__.py"]


def test_every_module_belongs_to_a_layer():
    assert {top_level(path) for path in modules()} <= set(LEVEL)


def test_imports_point_down_only():
    wrong = [
        f"{path.relative_to(ROOT)} imports scdp.{name}"
        for path in modules()
        for name in imported_parts(path)
        if LEVEL[name] > LEVEL[top_level(path)]
    ]
    assert not wrong
