"""The repository as a whole: its papers are there and agree, links resolve, and nothing private is tracked."""

from __future__ import annotations

import re
import subprocess
import tomllib
from pathlib import Path

import pytest

import scdp

ROOT = Path(__file__).parents[1]
PAPERS = [
    "README.md", "CHANGELOG.md", "CONTRIBUTING.md", "CITATION.cff", "SECURITY.md", "LICENSE", "Makefile",
    "constraints.txt", "docs/architecture.md", ".ci/run",
]  # fmt: skip
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])
DATA_ENDINGS = (
    ".csv", ".tsv", ".jsonl", ".parquet", ".npz", ".npy", ".gz", ".zip", ".tar", ".rda", ".conllu", ".pkl", ".duckdb",
)  # fmt: skip
# Put together here so that this file does not hold what it looks for.
PRIVATE = [
    re.compile(r"(?<![\w.)-])/(ro" + "ot|ho" + "me/[a-z]+|Us" + "ers/[a-z]+|wo" + "rk)/"),
    re.compile("|".join(("py" + r"pi\.", "files.python" + "hosted", "index" + "-url", "art" + "ifactory"))),
]


def tracked_files():
    try:
        done = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=True, text=True)
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("not a git checkout: nothing is tracked")
    return [ROOT / name for name in done.stdout.split("\0") if name and (ROOT / name).is_file()]


def read(name):
    return (ROOT / name).read_text(encoding="utf-8")


@pytest.mark.parametrize("name", PAPERS)
def test_the_paper_is_there(name):
    assert read(name).strip()


def test_versions_agree():
    (cited,) = re.findall(r"^version: (\S+)$", read("CITATION.cff"), re.MULTILINE)
    (newest, *_) = re.findall(r"^## \[(\d\S*)\]", read("CHANGELOG.md"), re.MULTILINE)
    declared = tomllib.loads(read("pyproject.toml"))["project"]["version"]
    assert declared == cited == newest == scdp.__version__


def test_the_citation_names_the_software_and_the_paper():
    text = read("CITATION.cff")
    for key in ("cff-version", "message", "title", "authors"):
        assert re.search(rf"^{key}:", text, re.MULTILINE), f"CITATION.cff needs {key}"
    assert all(f"{key}: {value}" in text for key, value in (("volume", 6), ("start", 1551), ("end", 1577)))
    assert "\t" not in text


def links(page):
    text = re.sub(r"```.*?```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)
    return [link for link in re.findall(r"\]\(([^)\s]+)\)", text) if not re.match(r"[a-z]+:", link)]


def anchors(page):
    headings = re.findall(r"^#+ (.+)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES, ids=[str(page.relative_to(ROOT)) for page in PAGES])
def test_relative_links_resolve(page):
    for link in links(page):
        name, _, anchor = link.partition("#")
        target = (page.parent / name).resolve() if name else page
        assert target.exists(), f"{page.name}: {link} leads nowhere"
        assert not anchor or anchor in anchors(target), f"{page.name}: {link} has no such heading"


def test_every_promise_of_safety_names_tests_and_targets_that_are_there():
    text, makefile = (
        (ROOT / "SECURITY.md").read_text(encoding="utf-8"),
        (ROOT / "Makefile").read_text(encoding="utf-8"),
    )
    rows = [line for line in text.splitlines() if line.startswith("| **")]
    assert len(rows) > 15
    for row in rows:
        named = re.findall(r"`(test_\w+)`", row.rsplit("|", 2)[1])
        assert named, row
        for name in named:
            assert list((ROOT / "tests").rglob(f"{name}.py")), name
    for target in re.findall(r"`make (\w+)`", text):
        assert re.search(rf"^{target}:", makefile, re.MULTILINE), target


def test_the_readme_leads_to_the_documentation():
    """Every page is in the navigation of the site, which its own test checks."""
    assert "docs/index.md" in links(ROOT / "README.md")


def test_private_things_would_be_found():
    paths, addresses = PRIVATE
    assert all(paths.search(text.replace("~", "")) for text in ("'/ro~ot/x'", "cd /wo~rk/x", "=/ho~me/ann/x"))
    assert not paths.search("0/ro" + "ot/_ and ../wo" + "rk/x")
    assert addresses.search("https://py" + "pi.org")


def test_no_machine_paths_or_index_addresses():
    found = []
    for path in tracked_files():
        try:
            text = path.read_text(encoding="utf-8")
        except UnicodeDecodeError:
            continue
        found += [f"{path.relative_to(ROOT)}: {pattern.search(text)[0]}" for pattern in PRIVATE if pattern.search(text)]
    assert not found


def test_no_data_file_is_tracked():
    names = [path.relative_to(ROOT).as_posix() for path in tracked_files()]
    assert not [name for name in names if name.endswith(DATA_ENDINGS)]
    assert not [path for path in tracked_files() if path.stat().st_size > 500_000]


def test_ci_runs_the_checks_and_then_the_tests():
    lines = read(".ci/run").splitlines()
    assert lines.index("make check") < lines.index("make test")
    assert "export SCDP_REQUIRE_DATA=1" in lines
    assert (ROOT / ".ci/run").stat().st_mode & 0o111, ".ci/run must be executable"
