"""What each dependency costs and gives: `python .ci/sizes.py` writes docs/dependencies.md to stdout.

Files are fetched once more, to see what they weigh. With the name of another package it prints what that one takes.
"""

from __future__ import annotations

import re
import subprocess
import sys
from importlib import metadata
from pathlib import Path
from tempfile import TemporaryDirectory

# What scdp takes from each.
GIVES = {
    "numba": "compiles the samplers",
    "llvmlite": "the compiler behind Numba",
    "scipy": "L-BFGS, special functions, sparse matrices",
    "scikit-learn": "boosted trees, the rules of estimators, the paper's opponents",
    "numpy": "arrays",
    "duckdb": "Parquet, blocking joins, SQL over draws",
    "rapidfuzz": "string distances",
    "arviz-stats": "R-hat and effective sample sizes of the paper's chains",
    "narwhals": "pandas, polars and Arrow tables through one door",
    "rich": "bars and tables in the terminal",
    "click": "the command line",
    "joblib": "needed by scikit-learn",
    "defusedxml": "XML of strangers without its traps",
    "filelock": "one writer at a time, on every system",
    "platformdirs": "where caches belong, on every system",
    "threadpoolctl": "one thread where more would wait for one another",
}
HEAD = """# What each dependency costs

What `pip install scdp` without extras downloads, and what it takes on the disk, in millions of bytes, as
`python .ci/sizes.py` prints it (Linux, Python {python}). What Python compiles from it comes on top.

| package | version | download, MB | disk, MB | what scdp takes from it |
|---|---|---|---|---|"""
TAIL = """
## What could be left out?

- **llvmlite and Numba** are four tenths of the disk. Without them the samplers would be loops of plain Python.
- **SciPy** is needed by scikit-learn too. Without both, boosted trees and the optimiser would have to be written anew.
- **DuckDB** reads Parquet, joins candidates and answers `scdp query`.
- **arviz-stats** costs next to nothing, since it only needs NumPy and SciPy.
- Everything else is an extra: `plots`, `pandas`, `polars`, `review`, `excel`, `zstd`, `spark`, `arviz`.
"""


def needed(name: str, found: dict[str, metadata.Distribution]) -> None:
    """All that a package needs without extras."""
    try:
        package = metadata.distribution(name)
    except metadata.PackageNotFoundError:
        return
    key = package.metadata["Name"].lower().replace("_", "-")
    if key in found:
        return
    found[key] = package
    for line in package.requires or []:
        if "extra ==" not in line and "sys_platform ==" not in line:
            needed(re.match(r"[A-Za-z0-9_.-]+", line)[0], found)  # type: ignore[index]


def size_of(package: metadata.Distribution) -> int:
    """Bytes of the files of a package, without what Python compiles."""
    paths = [file.locate() for file in package.files or [] if not str(file).endswith(".pyc")]
    return sum(path.stat().st_size for path in paths if path.is_file())


def downloads(found: dict[str, metadata.Distribution]) -> dict[str, int]:
    """Bytes of the file that pip fetches for each package."""
    with TemporaryDirectory() as folder:
        wanted = [f"{name}=={package.version}" for name, package in found.items()]
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--only-binary", ":all:"]
        subprocess.run([*command, "--dest", folder, *wanted], check=True, stdout=sys.stderr)
        files = {re.split(r"-\d", path.name)[0]: path.stat().st_size for path in Path(folder).iterdir()}
        return {name.lower().replace("_", "-"): size for name, size in files.items()}


def main() -> None:
    """Print the page."""
    import platform

    asked = sys.argv[1] if len(sys.argv) > 1 else "scdp"
    found: dict[str, metadata.Distribution] = {}
    needed(asked, found)
    if asked != "scdp":
        print(f"{asked}: {sum(map(size_of, found.values())) / 1e6:.0f} MB with all it needs")
        return
    found.pop("scdp")
    sizes = {name: size_of(package) / 1e6 for name, package in found.items()}
    fetched = downloads(found)
    print(HEAD.format(python=".".join(platform.python_version_tuple()[:2])))
    for name in sorted(sizes, key=lambda each: -sizes[each]):
        gives = GIVES.get(name, "needed by another")
        print(f"| {name} | {found[name].version} | {fetched[name] / 1e6:.1f} | {sizes[name]:.1f} | {gives} |")
    print(f"| **all** | | **{sum(fetched.values()) / 1e6:.0f}** | **{sum(sizes.values()):.0f}** | |")
    print(TAIL, end="")


if __name__ == "__main__":
    main()
