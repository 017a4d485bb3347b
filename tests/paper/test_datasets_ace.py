"""ACE's annotation format on small documents written here: offsets, types, and hostile XML."""

from __future__ import annotations

from pathlib import Path

import pytest

from scdp.errors import InputError
from scdp.paper.datasets import load_ace

BODY = "Maria Lopez of Acme &amp; Sons met\nLopez in Bonn."
SOURCE = f"<DOC>\n<DOCID> d1 </DOCID>\n<TEXT>\n{BODY}\n</TEXT>\n</DOC>\n"
WRITTEN = f"\n d1 \n\n{BODY}\n\n\n"
DOCTYPE = '<!DOCTYPE source_file SYSTEM "apf.v4.0.1.dtd">'


def charseq(tag: str, text: str, plain: str, after: int = 0) -> str:
    first = plain.index(text, after)
    shown = text.replace("&amp;", "&").replace("&", "&amp;")
    return f'<{tag}><charseq START="{first}" END="{first + len(text) - 1}">{shown}</charseq></{tag}>'


def mention(number: str, extent: str, head: str, plain: str = WRITTEN, after: int = 0, kind: str = "NAM") -> str:
    return (
        f'<entity_mention ID="{number}" TYPE="{kind}" LDCTYPE="{kind}">'
        f"{charseq('extent', extent, plain, after)}{charseq('head', head, plain, after)}</entity_mention>"
    )


def annotation(*entities: str, doctype: str = DOCTYPE) -> str:
    return (
        f'<?xml version="1.0"?>\n{doctype}\n<source_file URI="d1.sgm" SOURCE="newswire" TYPE="text">'
        f'<document DOCID="d1">{"".join(entities)}</document></source_file>'
    )


def entity(id: str, kind: str, *mentions: str) -> str:
    return f'<entity ID="{id}" TYPE="{kind}">{"".join(mentions)}</entity>'


def write(folder: Path, apf: str | bytes, source: str = SOURCE) -> Path:
    (folder / "d1.sgm").write_text(source, encoding="utf-8")
    (folder / "d1.apf.xml").write_bytes(apf.encode() if isinstance(apf, str) else apf)
    return folder


def small_document(plain: str = WRITTEN, company: str = "Acme &amp; Sons") -> str:
    return annotation(
        entity(
            "E1",
            "PER",
            mention("E1-1", f"Maria Lopez of {company}", "Maria Lopez", plain),
            mention("E1-2", "Lopez", "Lopez", plain, after=plain.index("met")),
        ),
        entity("E2", "ORG", mention("E2-1", company, company, plain)),
        entity("E3", "GPE", mention("E3-1", "Bonn", "Bonn", plain), mention("E3-2", "in", "in", plain, kind="NOM")),
    )


def check_small_document(found) -> None:
    assert found.data["name"].tolist() == ["Maria Lopez", "Lopez", "Acme & Sons", "Bonn"]
    assert found.data["span"].tolist() == ["Maria Lopez of Acme & Sons", "Lopez", "Acme & Sons", "Bonn"]
    assert found.data["head"].tolist() == ["Lopez", "Lopez", "Sons", "Bonn"]
    assert found.data["etype"].tolist() == ["person", "person", "organization", "place"]
    assert found.clusters.tolist() == ["d1/E1", "d1/E1", "d1/E2", "d1/E3"]
    assert found.groups.tolist() == ["d1"] * 4
    assert set(found.data["genre"]) == {"newswire"}
    assert found.data.names == ("name", "span", "head", "etype", "genre", "doc")


def test_named_mentions_of_a_document(tmp_path):
    check_small_document(load_ace(write(tmp_path, small_document())))


def test_offsets_that_count_an_entity_as_one_character(tmp_path):
    plain = WRITTEN.replace("&amp;", "&")
    check_small_document(load_ace(write(tmp_path, small_document(plain, "Acme & Sons"))))


def test_an_annotation_without_text_takes_it_from_the_source(tmp_path):
    bare = small_document().replace(">Bonn<", "><")
    check_small_document(load_ace(write(tmp_path, bare)))
    first = WRITTEN.index("Bonn")
    with pytest.raises(InputError, match="do not belong together"):
        load_ace(write(tmp_path, bare.replace(f'END="{first + 3}"', 'END="9999"')))


def test_documents_are_found_in_folders_and_kept_apart(tmp_path):
    for name in ("nwire", "bnews"):
        (tmp_path / name).mkdir()
        apf = small_document().replace('DOCID="d1"', f'DOCID="{name}"')
        write(tmp_path / name, apf)
    found = load_ace(tmp_path)
    assert len(found) == 8
    assert found.n_clusters == 6
    assert set(found.groups) == {"nwire", "bnews"}


BOMB = '<!DOCTYPE source_file [<!ENTITY a "ha"><!ENTITY b "&a;&a;&a;">]>'
INTERNAL = '<!DOCTYPE source_file SYSTEM "apf.v4.0.1.dtd" [<!ELEMENT x ANY>]>'
OUTSIDE = '<!DOCTYPE source_file [<!ENTITY file SYSTEM "file:///etc/hostname">]>'


@pytest.mark.parametrize("doctype", [BOMB, INTERNAL, OUTSIDE, DOCTYPE * 2, DOCTYPE + BOMB])
def test_declarations_of_their_own_are_refused(tmp_path, doctype):
    with pytest.raises(InputError, match=r"d1\.apf\.xml"):
        load_ace(write(tmp_path, annotation(doctype=doctype)))


def test_a_declaration_in_another_encoding_is_refused_too(tmp_path):
    with pytest.raises(InputError, match="document type"):
        load_ace(
            write(tmp_path, annotation(doctype=DOCTYPE).replace('"1.0"', '"1.0" encoding="UTF-16"').encode("utf-16"))
        )


@pytest.mark.parametrize(
    "apf",
    [
        small_document()[:-40],
        "",
        "no xml",
        annotation().replace("document", "page"),
        annotation(entity("E1", "PER", '<entity_mention ID="m" TYPE="NAM"></entity_mention>')),
        small_document().replace('START="', 'START="-'),
        small_document().replace('END="', 'END="9'),
        small_document().replace(' ID="E1"', ""),
        small_document().replace(">Bonn<", ">Berlin<"),
    ],
)
def test_broken_annotation_is_named(tmp_path, apf):
    with pytest.raises(InputError, match=r"d1\.apf\.xml"):
        load_ace(write(tmp_path, apf))


def test_a_missing_source_and_an_empty_folder_are_named(tmp_path):
    with pytest.raises(InputError, match=r"no \.apf\.xml file"):
        load_ace(tmp_path)
    write(tmp_path, small_document())
    (tmp_path / "d1.sgm").unlink()
    with pytest.raises(InputError, match=r"d1\.sgm.*cannot be read"):
        load_ace(tmp_path)
