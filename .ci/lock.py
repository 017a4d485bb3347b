"""Print what a developer's environment installs, by digest: one line a package, as pip's --require-hashes wants it.

Run by `make lock` with the Python of .venv; the lines hold for this system and this version of Python. Addresses of
the index that was asked are not part of them. Spark is left out: it has to be built, by what has no digest here.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
# What builds the package itself, which is then installed without its dependencies.
BUILDERS = ("hatchling", "editables")


def resolve() -> list[dict]:
    """pip's own report of what it would install into an empty environment."""
    asked = [f"{ROOT}[test,check,plots]", *BUILDERS]
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--dry-run", "--ignore-installed", "--report", "-"]
    done = subprocess.run(
        [*command, "--constraint", str(ROOT / "constraints.txt"), *asked], check=True, capture_output=True, text=True
    )
    return json.loads(done.stdout)["install"]


def line(package: dict) -> str:
    about, source = package["metadata"], package["download_info"]["archive_info"]
    return f"{about['name']}=={about['version']} --hash=sha256:{source['hashes']['sha256']}"


if __name__ == "__main__":
    packages = [package for package in resolve() if package["metadata"]["name"] != "scdp"]
    print(f"# {sys.platform}, Python {sys.version_info.major}.{sys.version_info.minor}; written by `make lock`.")
    print("\n".join(sorted(map(line, packages), key=str.lower)))
