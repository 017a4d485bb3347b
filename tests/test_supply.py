"""What scdp is made from: declared, bounded on both sides, pinned by digest, with licences that are known."""

from __future__ import annotations

import ast
import json
import re
import subprocess
import sys
import tomllib
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
# Where the name that is imported is not that of the package, or the package is a part of another.
PACKAGES = {"sklearn": "scikit-learn", "arviz_stats": "arviz-stats", "llvmlite": "numba"}
EXTRAS = ("polars", "arviz", "plots", "pandas", "review", "excel", "zstd", "spark")


@cache
def project():
    return tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def name_of(requirement: str) -> str:
    return re.match(r"[A-Za-z0-9_.-]+?(?=[<>=\[ ]|$)", requirement)[0].lower()


def declared() -> list[str]:
    return [
        *project()["dependencies"],
        *(each for extra in EXTRAS for each in project()["optional-dependencies"][extra]),
    ]


def lines_of(name: str) -> list[str]:
    lines = (ROOT / name).read_text(encoding="utf-8").splitlines()
    return [line for line in lines if line and not line.startswith("#")]


def imported_packages() -> set[str]:
    found = set()
    for path in (ROOT / "src").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            if isinstance(node, ast.ImportFrom) and node.module and not node.level:
                names = [node.module]
            found |= {name.split(".")[0] for name in names}
    return {PACKAGES.get(name, name) for name in found - set(sys.stdlib_module_names) - {"scdp"}}


def test_every_package_that_is_imported_is_declared():
    assert imported_packages() <= {name_of(requirement) for requirement in declared()}


@pytest.mark.parametrize("requirement", declared())
def test_every_dependency_has_a_lowest_and_a_highest_version(requirement):
    assert re.fullmatch(r"[A-Za-z0-9_.-]+>=[0-9.]+,<[0-9.]+", requirement)


def test_what_is_pinned_is_within_the_bounds():
    from packaging.requirements import Requirement

    pinned = dict(line.lower().split("==") for line in lines_of("constraints.txt"))
    for text in declared():
        wanted = Requirement(text)
        if wanted.name != "arviz":
            assert wanted.specifier.contains(pinned[wanted.name.lower()]), text


def test_developers_install_by_digest_what_is_tested():
    pinned = {name_of(line): line.lower() for line in lines_of("constraints.txt")}
    names = set()
    for line in lines_of("requirements-dev.txt"):
        version, digest = line.split(" --hash=sha256:")
        assert re.fullmatch(r"[0-9a-f]{64}", digest)
        names.add(name_of(version))
        # What builds the package has no other pin.
        assert pinned.get(name_of(version), version.lower()) == version.lower()
    assert {name_of(each) for each in project()["dependencies"]} <= names


def test_the_lowest_versions_are_those_of_the_project():
    script = ROOT / ".ci" / "lowest.py"
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, check=True, timeout=900)
    assert [line.split("==")[0] for line in done.stdout.splitlines()] == [
        name_of(each) for each in project()["dependencies"]
    ]


def test_licences_are_listed_and_none_binds_what_uses_it():
    page = (ROOT / "LICENCES.md").read_text(encoding="utf-8")
    listed = {row.split("|")[1].strip(): row.split("|")[2] for row in page.splitlines() if row.startswith("| ")}
    assert {name_of(each) for each in declared()} - {"arviz"} <= set(listed)
    assert not [name for name, licence in listed.items() if re.search(r"GPL|not stated|Other", licence)]


def test_the_bill_of_materials_has_every_dependency_with_version_and_licence():
    script = ROOT / ".ci" / "licences.py"
    done = subprocess.run([sys.executable, script, "--sbom"], capture_output=True, text=True, check=True, timeout=900)
    bill = json.loads(done.stdout)
    assert (bill["bomFormat"], bill["metadata"]["component"]["version"]) == ("CycloneDX", project()["version"])
    found = {part["name"]: part for part in bill["components"]}
    assert {name_of(each) for each in project()["dependencies"]} <= set(found)
    for name, part in found.items():
        assert part["purl"] == f"pkg:pypi/{name}@{part['version']}"
        assert part["licenses"][0]["license"]["name"] != "not stated"


@pytest.mark.parametrize("path", sorted((ROOT / ".github" / "workflows").glob("*.yml")), ids=lambda path: path.name)
def test_workflows_take_actions_by_commit_and_have_no_rights_to_write(path):
    text = path.read_text(encoding="utf-8")
    assert re.findall(r"uses: (\S+)", text)
    for action in re.findall(r"uses: (\S+)", text):
        assert re.fullmatch(r"[\w/-]+@[0-9a-f]{40}", action)
    assert "permissions:\n  contents: read" in text
    assert not re.search(r"secrets\.|contents: write|pull_request_target", text)


def test_workflows_cover_what_is_promised():
    text = (ROOT / ".github" / "workflows" / "checks.yml").read_text(encoding="utf-8")
    versions = re.findall(r"Python :: (3\.\d+)", " ".join(project()["classifiers"]))
    assert re.search(r"python: \[(.*)\]", text)[1] == ", ".join(f'"{version}"' for version in versions)
    assert "os: [ubuntu-latest, macos-latest, windows-latest]" in text
    assert "pip-audit" in text
