"""Print, as a table, the licence of every package that scdp installs, as the package itself states it.

`make licences` writes LICENCES.md by it. What its extras add is marked with the extra. With --sbom it prints a bill of
materials in the form of CycloneDX, with versions, which goes with a release.
"""

from __future__ import annotations

import json
import re
import sys
import tomllib
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

from packaging.requirements import Requirement

ROOT = Path(__file__).parents[1]
# Extras that users install; those for tests and checks are for developers alone.
EXTRAS = ("plots", "pandas", "polars", "people", "review", "excel", "zstd", "spark")
HEAD = """# Licences of what scdp installs

As the packages state them themselves; `make licences` writes this page (but not what `scdp[arviz]`
adds). scdp itself is under the MIT licence.

| package | licence | installed with |
|---|---|---|"""


def closure(requirements: list[str]) -> dict[str, str]:
    """Packages that these need, and what those need, each with its licence; what is not installed is left out."""
    found: dict[str, str] = {}
    waiting = [Requirement(text) for text in requirements]
    while waiting:
        wanted = waiting.pop()
        name = re.sub(r"[-_.]+", "-", wanted.name).lower()
        if name in found or (wanted.marker and not wanted.marker.evaluate({"extra": ""})):
            continue
        try:
            package = distribution(name)
        except PackageNotFoundError:
            continue
        found[name] = licence(package.metadata)
        waiting += [Requirement(text) for text in package.requires or ()]
    return found


def licence(about: object) -> str:
    """The expression, else the classifiers, else the first line of the field."""
    if expression := about.get("License-Expression"):
        return expression
    named = [line.split(" :: ")[-1] for line in about.get_all("Classifier", []) if line.startswith("License ::")]
    if named:
        return ", ".join(named)
    return (about.get("License") or "not stated").strip().splitlines()[0]


def table() -> str:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    core = closure(project["dependencies"])
    rows = {name: f"| {name} | {text} | scdp |" for name, text in core.items()}
    for extra in EXTRAS:
        for name, text in closure(project["optional-dependencies"][extra]).items():
            rows.setdefault(name, f"| {name} | {text} | scdp[{extra}] |")
    return "\n".join([HEAD, *(rows[name] for name in sorted(rows))])


def bill() -> str:
    """What `pip install scdp` without extras installs, for machines."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    components = [
        {
            "type": "library",
            "name": name,
            "version": distribution(name).version,
            "purl": f"pkg:pypi/{name}@{distribution(name).version}",
            "licenses": [{"license": {"name": text}}],
        }
        for name, text in sorted(closure(project["dependencies"]).items())
    ]
    about = {"type": "library", "name": project["name"], "version": project["version"]}
    about["licenses"] = [{"license": {"id": project["license"]}}]
    whole = {"bomFormat": "CycloneDX", "specVersion": "1.6", "version": 1, "metadata": {"component": about}}
    return json.dumps(whole | {"components": components}, indent=1)


if __name__ == "__main__":
    print(bill() if "--sbom" in sys.argv[1:] else table())
