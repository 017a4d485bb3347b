"""Print the lowest versions that pyproject.toml allows of what scdp needs, as constraints for pip."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path


def lowest(requirement: str) -> str:
    """`name>=1.2,<3` as `name==1.2`."""
    name, version = re.fullmatch(r"([A-Za-z0-9_.-]+)>=([0-9.]+)(?:,<[0-9.]+)?", requirement).groups()
    return f"{name}=={version}"


if __name__ == "__main__":
    project = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text(encoding="utf-8"))
    print("\n".join(map(lowest, project["project"]["dependencies"])))
