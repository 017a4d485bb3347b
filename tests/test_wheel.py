"""The package as people get it: the wheel is built and installed beside the repository, and documents are followed."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src"
# Pages whose examples need no file that is not made on the way.
PAGES = [
    ROOT / "README.md",
    *sorted(page for part in ("tutorials", "howto", "concepts") for page in (ROOT / "docs" / part).glob("*.md")),
    *(ROOT / "docs" / f"{name}.md" for name in ("index", "faq", "checkpoints", "decisions", "generator", "scale")),
]


def run(*command: str | Path, cwd: Path, **environment: str) -> str:
    kept = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "SCDP_DATA")}
    done = subprocess.run(
        list(map(str, command)), cwd=cwd, capture_output=True, text=True, timeout=1800, env=kept | environment
    )
    assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
    return done.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    folder = tmp_path_factory.mktemp("wheel")
    run(sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", folder, cwd=ROOT)
    (found,) = folder.glob("scdp-*.whl")
    return found


def test_the_wheel_holds_the_package_and_nothing_else(wheel):
    with zipfile.ZipFile(wheel) as file:
        names = set(file.namelist())
    sources = {path.relative_to(SOURCE).as_posix() for path in SOURCE.rglob("*") if path.is_file()}
    sources = {name for name in sources if "__pycache__" not in name}
    about = {name for name in names if ".dist-info/" in name}
    assert names - about == sources
    assert {"METADATA", "WHEEL", "RECORD", "entry_points.txt", "licenses/LICENSE"} == {
        name.partition("/")[2] for name in about
    }
    assert wheel.stat().st_size < 2_000_000


def test_the_page_of_the_index_has_no_link_that_leads_nowhere(wheel):
    with zipfile.ZipFile(wheel) as file:
        (name,) = [name for name in file.namelist() if name.endswith("METADATA")]
        page = file.read(name).decode("utf-8").partition("\n\n")[2]
    assert page.startswith("# scdp\n")
    assert "Documentation: tutorials" in page
    links = re.findall(r"\]\(([^)\s]+)\)", page)
    assert not [link for link in links if not link.startswith(("https://", "#"))]


def test_all_that_documents_show_runs_from_the_wheel(wheel, tmp_path):
    """README, tutorials, guides and concepts, command by command, each page from an empty folder."""
    folder = tmp_path / "installed"
    options = ("--quiet", "--disable-pip-version-check", "--no-index", "--no-deps", "--target")
    run(sys.executable, "-m", "pip", "install", *options, folder, wheel, cwd=tmp_path)
    where = run(sys.executable, "-c", "import scdp; print(scdp.__file__)", cwd=tmp_path, PYTHONPATH=str(folder))
    assert Path(where.strip()).is_relative_to(folder)
    said = run(sys.executable, ROOT / ".ci" / "documents.py", *PAGES, cwd=tmp_path, PYTHONPATH=str(folder))
    counts = dict(re.findall(r"^(\S+): (\d+) examples", said, re.MULTILINE))
    assert int(counts["README.md"]) == 5
    assert all(int(counts[f"{name}.md"]) >= 3 for name in ("deduplicate", "link", "weekly", "million", "no-labels"))


def test_a_page_that_says_what_is_not_so_is_found(tmp_path):
    script = ROOT / ".ci" / "documents.py"
    wrong = {
        "command": "```sh\nscdp evaluate no.csv no.csv\n```\n",
        "other": "```sh\nrm -rf /nowhere\n```\n",
        "printed": "```python\nprint(1 + 1)  # 3\n```\n",
    }
    for name, text in wrong.items():
        (tmp_path / f"{name}.md").write_text(text, encoding="utf-8")
        done = subprocess.run([sys.executable, script, tmp_path / f"{name}.md"], capture_output=True, text=True)
        assert done.returncode == 1
        assert done.stderr.startswith(str(tmp_path / f"{name}.md"))
