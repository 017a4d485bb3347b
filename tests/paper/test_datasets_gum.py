"""GUM's entity brackets, heads and names: by hand on small sentences, and against a derived table."""

from __future__ import annotations

import csv
import io
import os
import tarfile
from pathlib import Path

import pytest

from scdp.errors import InputError
from scdp.paper import coreference
from scdp.paper.datasets import load_coreference

# The names that differ from the table derived before this extraction was written; ours are whole.
BETTER_NAMES = {
    "GUM_bio_enfant:636-654": "Holland Lodge No. 8",
    "GUM_bio_galois:975-979": "Bourg-la-Reine",
    "GUM_bio_galois:1220-1224": "Bourg-la-Reine",
    "GUM_news_stampede:230-244": "Al-Ghaza Hotel",
    "GUM_voyage_fortlee:723-726": "Visitors' Center",
}


def sentence(*words: str) -> str:
    """Words as `form/UPOS/head/relation/attributes`, into CoNLL-U lines; an id may be put before with `=`."""
    lines, number = [], 0
    for word in words:
        id, _, rest = word.rpartition("=>")
        form, upos, head, relation, attributes = rest.split("/")
        number += not id
        lines.append("\t".join([id or str(number), form, form, upos, "_", "_", head, relation, "_", attributes]))
    return "\n".join(lines) + "\n\n"


def found(*words: str) -> list[tuple[str, str, str, str]]:
    return [(m.kind, m.name, m.span, m.head) for m in coreference.find_mentions(sentence(*words), "doc")]


def test_nested_mentions_of_one_token_and_of_many():
    assert found(
        "the/DET/2/det/Entity=(1-organization-new-x-cf1-2-sgl",
        "University/PROPN/0/root/_",
        "of/ADP/4/case/_",
        "Bonn/PROPN/2/nmod/Entity=(2-place-new-x-cf1-1-sgl-Bonn)1)",
    ) == [
        ("organization", "University of Bonn", "the University of Bonn", "University"),
        ("place", "Bonn", "Bonn", "Bonn"),
    ]


def test_the_innermost_open_span_of_a_group_closes_first():
    tokens = list(
        coreference.read_tokens(
            sentence(
                "Ann/PROPN/0/root/Entity=(7-person-new-x-cf1-1-coref",
                "'s/PART/1/case/_",
                "Ann/PROPN/1/nmod/Entity=(7-person-giv-x-cf1-1-coref)7)",
            ),
            "doc",
        )
    )
    assert [(span.first, span.last) for span in coreference.read_spans(tokens, "doc")] == [(2, 2), (0, 2)]


def test_other_types_and_other_heads_are_left_out():
    assert found("Friday/PROPN/0/root/Entity=(1-time-new-x-cf1-1-sgl)") == []
    assert found("parents/NOUN/0/root/Entity=(1-person-new-x-cf1-1-sgl)") == []


def test_the_head_is_the_word_that_hangs_outside_the_span():
    assert found(
        "President/PROPN/2/compound/Entity=(1-person-new-x-cf1-2-sgl",
        "Lincoln/PROPN/3/nsubj/Entity=1)",
        "spoke/VERB/0/root/_",
    ) == [("person", "President Lincoln", "President Lincoln", "Lincoln")]


def test_coordinated_persons_are_dropped_but_not_organizations():
    group = ("Mary/PROPN/0/root/Entity=(1-{}-new-x-cf1-1-sgl", "and/CCONJ/3/cc/_", "Bo/PROPN/1/conj/Entity=1)")
    assert found(*[word.format("person") for word in group]) == []
    assert found(*[word.format("organization") for word in group])[0][1] == "Mary and Bo"


def test_a_name_ends_at_lower_case_words_commas_and_articles():
    assert found(
        "The/DET/2/det/Entity=(1-person-new-x-cf1-2-sgl",
        "Pope/PROPN/0/root/_",
        "Leo/PROPN/2/flat/_",
        "X/NUM/3/nummod/SpaceAfter=No",
        ",/PUNCT/2/punct/_",
        "Roman/PROPN/2/appos/_",
        "of/ADP/8/case/_",
        "birth/NOUN/6/nmod/Entity=1)",
    ) == [("person", "Pope Leo X", "The Pope Leo X, Roman of birth", "Pope")]


def test_a_bridging_word_at_the_end_is_no_part_of_the_name():
    assert found(
        "Bank/PROPN/0/root/Entity=(1-organization-new-x-cf1-1-sgl", "of/ADP/3/case/_", "rivers/NOUN/1/nmod/Entity=1)"
    ) == [("organization", "Bank", "Bank of rivers", "Bank")]


def test_multiword_lines_and_empty_nodes_do_not_shift_positions():
    text = sentence(
        "1-2=>Ann's/_/_/_/SpaceAfter=No",
        "Ann/PROPN/3/nmod/Entity=(1-person-new-x-cf1-1-sgl",
        "'s/PART/1/case/Entity=1)",
        "2.1=>gone/VERB/_/_/_",
        "Bonn/PROPN/0/root/Entity=(2-place-new-x-cf1-1-sgl)",
    )
    assert [(m.first, m.last, m.name, m.span) for m in coreference.find_mentions(text * 2, "doc")] == [
        (0, 1, "Ann", "Ann's"),
        (2, 2, "Bonn", "Bonn"),
        (3, 4, "Ann", "Ann's"),
        (5, 5, "Bonn", "Bonn"),
    ]


def test_the_spacing_after_a_multiword_is_that_of_its_line():
    assert found(
        "1-2=>Ann's/_/_/_/SpaceAfter=No",
        "Ann/PROPN/0/root/Entity=(1-person-new-x-cf1-1-sgl",
        "'s/PART/1/case/_",
        "!/PUNCT/1/punct/Entity=1)",
    ) == [("person", "Ann", "Ann's!", "Ann")]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("1\tword\n", "doc, line 1: 2 columns"),
        (sentence("Ann/PROPN/zero/root/_"), "line 1: 'zero'"),
        (sentence("Ann/PROPN/0/root/Entity=(1-person-new"), "1 is opened but never closed"),
        (sentence("Ann/PROPN/0/root/Entity=3)"), "3 is closed but was never opened"),
        (sentence("Ann/PROPN/0/root/Entity=(3)"), "'3' has no type"),
    ],
)
def test_broken_annotation_is_named(text, message):
    with pytest.raises(InputError, match=message.replace("(", r"\(")):
        coreference.find_mentions(text, "doc")


def test_splits_are_read_from_headings_and_bullets(tmp_path):
    place = tmp_path / "splits.md"
    place.write_text("# Splits\n\n## dev\n\n  * GUM_bio_byron\n\n## train\n\n  * GUM_news_a\n", encoding="utf-8")
    assert coreference.read_splits(place) == {"GUM_bio_byron": "dev", "GUM_news_a": "train"}
    place.write_text("nothing", encoding="utf-8")
    with pytest.raises(InputError, match=r"splits\.md"):
        coreference.read_splits(place)


def archive(place: Path, members: dict[str, bytes], link: str | None = None) -> Path:
    with tarfile.open(place, "w:gz") as tar:
        for name, content in members.items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            tar.addfile(info, io.BytesIO(content))
        if link:
            info = tarfile.TarInfo(link)
            info.type, info.linkname = tarfile.SYMTYPE, "/etc/hostname"
            tar.addfile(info)
    return place


def test_an_archive_yields_only_regular_gum_documents(tmp_path):
    place = archive(
        tmp_path / "a.tar.gz",
        {"GUM_news_b.conllu": b"two", "../GUM_news_a.conllu": b"one", "README": b"no"},
        link="GUM_news_c.conllu",
    )
    assert list(coreference.read_documents(place)) == [("GUM_news_a", "one"), ("GUM_news_b", "two")]
    assert [path.name for path in tmp_path.iterdir()] == ["a.tar.gz"]


def test_a_cut_archive_is_refused(tmp_path):
    place = archive(tmp_path / "a.tar.gz", {"GUM_news_b.conllu": os.urandom(40_000)})
    place.write_bytes(place.read_bytes()[:20_000])
    with pytest.raises(InputError, match=r"a\.tar\.gz: cannot be unpacked"):
        list(coreference.read_documents(place))


def test_every_mention_agrees_with_the_derived_table(data_or_skip, monkeypatch):
    monkeypatch.setenv("SCDP_OFFLINE", "1")
    with data_or_skip():
        task = load_coreference()
    place = Path(os.environ.get("SCDP_DATA", "."), "gum-propn", "mentions.csv")
    if not place.is_file():
        pytest.skip("no derived table of mentions to compare with")
    with place.open(encoding="utf-8", newline="") as lines:
        theirs = {(row["record_id"], row["cluster_id"]): row for row in csv.DictReader(lines)}
    different = {}
    for part, splits in ((task.train, {"train"}), (task.test, {"dev", "test"})):
        for id, cluster, mine in zip(part.ids, part.clusters, part.data.rows(), strict=True):
            row = theirs.pop((id, cluster))
            assert row["gum_split"] in splits
            assert all(mine[name] == row[name] for name in ("span", "head", "etype", "genre", "doc"))
            if mine["name"] != row["name"]:
                different[str(id)] = mine["name"]
    assert not theirs
    assert different == BETTER_NAMES
