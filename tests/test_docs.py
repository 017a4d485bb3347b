"""The documentation: the site builds without a network, and nothing on it leads nowhere; examples: test_wheel.py."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tomllib
from html.parser import HTMLParser
from importlib import import_module
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from urllib.parse import unquote

import pytest

from scdp.cli import main

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
LARGEST_PAGE = 200_000
# A metaphor costs every reader; these were ours.
BANNED = re.compile(r"\b(seating|sieve|sifting|rung|part" + r"y|restaurant)\b", re.IGNORECASE)


@pytest.mark.parametrize("page", sorted(DOCS.rglob("*.md")), ids=lambda page: str(page.relative_to(DOCS)))
def test_pages_have_no_words_that_only_we_know(page):
    text = re.sub(r"`[^`\n]*`|Chinese restaurant process", "", page.read_text(encoding="utf-8"), flags=re.IGNORECASE)
    found = [word for word in BANNED.findall(text) if not (word.lower() == "restaurant" and page.parent == DOCS)]
    assert not found


# Pages for users; those under research are for people who know the field.
TAUGHT = [ROOT / "README.md", DOCS / "index.md", DOCS / "faq.md"]
TAUGHT += sorted(page for part in ("tutorials", "howto", "concepts") for page in (DOCS / part).glob("*.md"))
MOST_WORDS = 28


def sentences(page):
    """The sentences of a page, without code, tables, headings and addresses."""
    text = re.sub(r"```.*?```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)
    text = re.sub(r"^[|#].*$", "", text, flags=re.MULTILINE)
    text = re.sub(r"`[^`]*`", "X", re.sub(r"\]\([^)]*\)", "]", text))
    for paragraph in re.split(r"\n\s*\n|\n- |\n\d\. ", text):
        yield from re.split(r"(?<=[.?!:])\s+", " ".join(paragraph.split()))


@pytest.mark.parametrize("page", TAUGHT, ids=lambda page: page.stem)
def test_sentences_are_short(page):
    long = [each for each in sentences(page) if len(each.split()) > MOST_WORDS and "Journal of Machine" not in each]
    assert not long


# ---- the site ----


def nav_pages(entries):
    for entry in entries:
        for value in entry.values():
            yield from nav_pages(value) if isinstance(value, list) else [value]


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """The site, built from pages in a folder of its own, without a network."""
    folder = tmp_path_factory.mktemp("site")
    spec = spec_from_file_location("docs_site", DOCS / "site.py")
    builder = module_from_spec(spec)
    spec.loader.exec_module(builder)
    builder.make_pages(folder / "build" / "docs")
    shutil.copy(ROOT / "zensical.toml", folder)
    done = subprocess.run(
        [sys.executable, "-m", "zensical", "build"], cwd=folder, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr
    assert "No issues found" in done.stdout + done.stderr
    return folder / "site", builder


class Page(HTMLParser):
    """Collects where a page leads, what it asks for while it loads, and its anchors."""

    def __init__(self, path):
        super().__init__()
        self.links, self.requests, self.anchors = [], [], set()
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag, attrs):
        found = dict(attrs)
        self.anchors |= {found[name] for name in ("id", "name") if found.get(name)}
        if tag == "a" and found.get("href"):
            self.links.append(found["href"])
        elif tag == "link" and found.get("rel") not in ("canonical", "next", "prev"):
            self.requests.append(found.get("href"))
        elif tag != "a":
            self.requests += [found[name] for name in ("src", "srcset", "data") if found.get(name)]


def test_no_link_is_dead_and_no_page_asks_the_network(site):
    folder, _ = site
    pages = {path: Page(path) for path in folder.rglob("*.html") if path.name != "404.html"}
    assert len(pages) > 30
    for path, page in pages.items():
        assert not [each for each in page.requests if re.match(r"https?:|//", each or "")], path
        for link in [*page.links, *page.requests]:
            if re.match(r"[a-z]+:", link):
                continue
            name, _, anchor = unquote(link).partition("#")
            target = (path.parent / name.partition("?")[0]).resolve() if name else path
            target = target / "index.html" if target.is_dir() else target
            assert target.exists(), f"{path.relative_to(folder)}: {link} leads nowhere"
            if anchor and target in pages and not anchor.startswith("__"):
                assert anchor in pages[target].anchors, f"{path.relative_to(folder)}: no {link}"


def test_styles_ask_the_network_for_nothing(site):
    for path in site[0].rglob("*.css"):
        assert not re.search(r"url\([\"']?(https?:|//)|@import", path.read_text(encoding="utf-8"))


def test_pages_are_small(site):
    assert max(path.stat().st_size for path in site[0].rglob("*.html")) < LARGEST_PAGE


def test_every_page_is_in_the_navigation(site):
    config = tomllib.loads((ROOT / "zensical.toml").read_text(encoding="utf-8"))
    listed = list(nav_pages(config["project"]["nav"]))
    made = {path.relative_to(site[0]).with_suffix(".md").as_posix() for path in site[0].rglob("*.html")}
    assert made - {"404.md"} == set(listed)
    assert len(listed) == len(set(listed))


def test_every_public_name_is_in_the_reference(site):
    folder, builder = site
    for name in builder.MODULES:
        page = (folder / "reference" / f"{name}.html").read_text(encoding="utf-8")
        for each in builder.public_names(import_module(name)):
            assert f'id="{each.lower()}"' in page, f"{name}.{each}"


def test_every_command_is_in_the_reference(site):
    page = (site[0] / "reference" / "command-line.html").read_text(encoding="utf-8")
    assert all(f"scdp {name}</h2>" in re.sub(r"<a .*?</a>", "", page) for name in main.commands_by_name)
