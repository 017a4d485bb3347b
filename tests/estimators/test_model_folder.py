"""The folder of a model: what is saved is what is loaded, old ones still load, and damaged ones are named."""

from __future__ import annotations

import base64
import io
import json
import pickle
import shutil
from pathlib import Path

import numpy as np
import pytest

from product_cases import citations, fitted_folder
from scdp import SCDP, EntityResolver, Spec, compare, metrics
from scdp.errors import InputError
from scdp.estimators.model_folder import FILES, VERSION, _plain
from scdp.posterior import Posterior

pytestmark = pytest.mark.filterwarnings("ignore::scdp.posterior.recorder.ConvergenceWarning")
STORED = Path(__file__).parent / "models" / "things-1.0.json"


def quick(**parameters) -> SCDP:
    return SCDP(**({"n_chains": 2, "n_sweeps": 12, "random_state": 0} | parameters))


def points(seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    y = np.repeat(np.arange(6), 5)
    X = rng.normal(size=(6, 3))[y] * 4 + rng.normal(size=(30, 3)) * 0.2
    X[3, 1] = np.nan
    return X, y


def cases():
    X, y = points()
    square = np.abs(np.nan_to_num(X)[:, None] - np.nan_to_num(X))
    documents = np.arange(30) % 2
    train, test = citations(60)
    codes = np.unique(train.clusters, return_inverse=True)[1]
    fields = [compare.edit("title"), compare.absolute("year"), compare.edit(["author", "venue"], name="é")]
    spec = Spec("entity", fields)
    half = np.where(y % 2 == 0, y, -1)
    return {
        "points": (quick(), (X, y), (X + 0.05,)),
        "points, some unknown, in documents": (quick(), (X, half, documents), (X, documents)),
        "documents with names": (quick(), (X, half, documents.astype(str)), (X, documents.astype(str))),
        "a given start": (quick(init=y), (X, half), (X,)),
        "not scaled, shared": (quick(standardize=False, share_clusters=True), (X, y), (X,)),
        "scdp2": (quick(model="scdp2"), (X, y), (X,)),
        "scdp3": (quick(model="scdp3", conditioning="mean", rate="learn"), (X, half), (X,)),
        "cdp": (quick(model="cdp"), (X, y), (X,)),
        "distances": (quick(metric="precomputed"), (square, y), (square,)),
        "records": (quick(spec=spec), (train.data, codes), (test.data,)),
        "records without fields": (
            quick(spec=Spec("entity")),
            ({**train.data.columns, "entity": train.clusters}, codes),
            (test.data,),
        ),
    }


@pytest.mark.parametrize("name", cases())
def test_a_loaded_model_says_what_the_saved_one_says(name, tmp_path):
    model, training, new = cases()[name]
    model.fit(*training)
    expected, posterior = model.predict_with_posterior(*new)
    model.save(tmp_path / "model")
    again = SCDP.load(tmp_path / "model")
    labels, drawn = again.predict_with_posterior(*new)
    np.testing.assert_array_equal(labels, expected)
    np.testing.assert_array_equal(drawn.draws, posterior.draws)
    np.testing.assert_array_equal(again.labels_, model.labels_)
    np.testing.assert_array_equal(again.posterior_.draws, model.posterior_.draws)
    assert again.fitted_spec_ == model.fitted_spec_
    assert again.fitted_.learned().features == model.fitted_.learned().features
    ours, theirs = model.get_params(), again.get_params()
    assert all(np.array_equal(ours[key], theirs[key]) for key in ours if key != "spec")
    again.save(tmp_path / "again")
    for file in (tmp_path / "model").iterdir():
        assert file.name in FILES
        if file.suffix != ".npz":
            assert (tmp_path / "again" / file.name).read_bytes() == file.read_bytes()


def test_the_folder_is_readable_by_a_person():
    folder = fitted_folder() / "model"
    about = json.loads((folder / "model.json").read_text(encoding="utf-8"))
    assert (about["format"], about["version"]) == ("scdp-model", list(VERSION))
    assert about["parameters"]["n_sweeps"] == 20
    first = json.loads((folder / "records.jsonl").read_text(encoding="utf-8").splitlines()[0])
    assert set(first) == {"title", "author", "year"}
    assert "# edit distance of title (title: 0% missing" in (folder / "spec.toml").read_text(encoding="utf-8")
    assert Spec.from_toml(folder / "spec.toml").fields[2].scale > 0


def resolver_folder(tmp_path, labels):
    train, _ = citations(60)
    EntityResolver(n_draws=24, random_state=0).fit(train.data, labels).save(tmp_path / "model")
    return tmp_path / "model", train


def test_the_card_tells_what_taught_the_model_and_what_its_folder_holds(tmp_path):
    labels = np.unique(citations(60)[0].clusters, return_inverse=True)[1]
    folder, train = resolver_folder(tmp_path, labels)
    card = (folder / "model_card.md").read_text(encoding="utf-8")
    sizes = np.bincount(labels)
    assert f"- labelled records: {len(labels)}\n- groups they are in: {len(sizes)}\n" in card
    assert f"- groups of two records or more: {(sizes > 1).sum()}\n" in card
    assert all(f"| {name} | " in card for name in EntityResolver.load(folder).fitted_.features)
    assert "| probability | pairs |" in card
    assert {line.split("`")[1] for line in card.splitlines() if line.startswith("- `") and "." in line} == {
        path.name for path in folder.iterdir()
    } - {"model_card.md"}
    # It says that no training record is there: no title is in any file.
    assert "It holds no training records" in card
    contents = b"".join(path.read_bytes() for path in folder.iterdir())
    assert not [title for title in train.data["title"] if title is not None and title.encode() in contents]


def test_the_card_says_that_there_were_no_labels(tmp_path):
    folder, _ = resolver_folder(tmp_path, None)
    card = (folder / "model_card.md").read_text(encoding="utf-8")
    assert "No labels." in card
    assert "Nothing was held out" in card


def test_the_card_warns_where_the_folder_holds_records():
    card = (fitted_folder() / "model" / "model_card.md").read_text(encoding="utf-8")
    assert "Pass it on only if you may pass on the records." in card


def test_a_column_with_an_odd_name_does_not_break_the_table_of_the_card():
    assert _plain("a|b\n<c>") == "a\\|b &lt;c>"


def test_an_unfitted_model_is_not_saved(tmp_path):
    with pytest.raises(ValueError, match="not fitted"):
        quick().save(tmp_path / "model")
    assert not list(tmp_path.iterdir())


# ---- where a model may be written ----


def test_a_model_replaces_a_model_and_an_empty_folder(tmp_path):
    X, y = points()
    (tmp_path / "model").mkdir()
    quick().fit(X, y).save(tmp_path / "model")
    quick(n_sweeps=14).fit(X, y).save(tmp_path / "model")
    assert SCDP.load(tmp_path / "model").n_sweeps == 14
    assert [path.name for path in tmp_path.iterdir()] == ["model"]


def test_other_folders_are_refused_and_by_force_keep_what_they_hold(tmp_path):
    model = quick().fit(*points())
    (tmp_path / "thesis").mkdir()
    (tmp_path / "thesis" / "chapter.txt").write_text("years of work")
    with pytest.raises(InputError, match=r"holds 'chapter.txt', which is no part of a model"):
        model.save(tmp_path / "thesis")
    assert [path.name for path in (tmp_path / "thesis").iterdir()] == ["chapter.txt"]
    model.save(tmp_path / "thesis", force=True)
    assert (tmp_path / "thesis" / "chapter.txt").read_text() == "years of work"
    assert len(SCDP.load(tmp_path / "thesis").labels_) == 30
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="there is a file of this name"):
        model.save(tmp_path / "file", force=True)
    with pytest.raises(InputError, match="there is no folder"):
        model.save(tmp_path / "nowhere" / "model")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["file", "thesis"]


@pytest.mark.parametrize("problem", [KeyboardInterrupt(), OSError(28, "No space left on device")])
def test_an_interrupted_save_leaves_the_old_model(problem, tmp_path, monkeypatch):
    X, y = points()
    quick().fit(X, y).save(tmp_path / "model")
    newer = quick(n_sweeps=14).fit(X, y)

    def interrupted(*_):
        raise problem

    monkeypatch.setattr(Posterior, "save", interrupted)
    with pytest.raises((KeyboardInterrupt, InputError)):
        newer.save(tmp_path / "model")
    with pytest.raises((KeyboardInterrupt, InputError)):
        newer.save(tmp_path / "new")
    assert [path.name for path in tmp_path.iterdir()] == ["model"]
    assert SCDP.load(tmp_path / "model").n_sweeps == 12


# ---- versions ----


def unpacked(stored: dict, folder: Path) -> Path:
    folder.mkdir()
    for name, text in stored["files"].items():
        content = base64.b64decode(text) if name.endswith(".npz") else text.encode("utf-8")
        (folder / name).write_bytes(content)
    return folder


def test_a_model_of_version_1_0_still_loads_and_works(tmp_path):
    stored = json.loads(STORED.read_text(encoding="utf-8"))
    model = SCDP.load(unpacked(stored, tmp_path / "model"))
    assert model.get_params()["n_sweeps"] == stored["n_sweeps"]
    # Other processors round sums otherwise, so a draw may differ; the clusters stand far apart.
    assert metrics.f_score(stored["clusters"], model.predict(stored["new"])) > 0.9


@pytest.fixture
def folder(tmp_path):
    shutil.copytree(fitted_folder() / "model", tmp_path / "model")
    return tmp_path / "model"


def edit(folder: Path, change) -> None:
    about = json.loads((folder / "model.json").read_text(encoding="utf-8"))
    change(about)
    (folder / "model.json").write_text(json.dumps(about), encoding="utf-8")


def edit_arrays(folder: Path, change) -> None:
    with np.load(folder / "arrays.npz") as archive:
        arrays = dict(archive)
    change(arrays)
    np.savez(folder / "arrays.npz", **arrays)


def test_a_later_minor_version_loads_and_what_it_added_is_left_out(folder):
    def later(about):
        about["version"][1] += 3
        about["parameters"]["added_later"] = 1
        about["fitted"]["added_later"] = {"more": True}

    edit(folder, later)
    assert len(SCDP.load(folder).labels_) == len(citations()[0])


class Evil:
    def __reduce__(self):
        return (pytest.fail, ("a pickled object was loaded",))


def pickled_member(folder: Path) -> None:
    content = io.BytesIO()
    array = np.empty(1, dtype=object)
    array[0] = Evil()
    np.save(content, array, allow_pickle=True)
    import zipfile

    with zipfile.ZipFile(folder / "arrays.npz", "a") as archive:
        archive.writestr("evil.npy", content.getvalue())


DAMAGES = {
    "no such folder": (lambda f: shutil.rmtree(f), "there is no such model"),
    "an empty folder": (lambda f: [p.unlink() for p in f.iterdir()], "this is no model of scdp"),
    "a later major version": (lambda f: edit(f, lambda a: a.update(version=[2, 0])), "written in version 2.0"),
    "a version that is none": (lambda f: edit(f, lambda a: a.update(version="1")), "which is none"),
    "another format": (lambda f: edit(f, lambda a: a.update(format="zip")), "this is no model of scdp"),
    "a model not known": (lambda f: edit(f, lambda a: a.update(model="scdp9")), "'scdp9' is not known"),
    "no model name": (lambda f: edit(f, lambda a: a.pop("model")), "'model' is missing"),
    "no parameters": (lambda f: edit(f, lambda a: a.pop("parameters")), "'parameters' is missing"),
    "no fitted": (lambda f: edit(f, lambda a: a.pop("fitted")), "'fitted' is missing"),
    "fitted a list": (lambda f: edit(f, lambda a: a.update(fitted=[1])), "'fitted' is a list"),
    "no chains": (lambda f: edit(f, lambda a: a["fitted"].pop("chains")), "'chains' is missing"),
    "chains of nothing": (lambda f: edit(f, lambda a: a["fitted"].update(chains=[])), "there are 0 chains"),
    "no seed": (lambda f: edit(f, lambda a: a["fitted"].pop("seed")), "'seed' is missing"),
    "other rows": (lambda f: edit(f, lambda a: a["fitted"].update(rows="cows")), "it should be points"),
    "fewer features": (lambda f: edit(f, lambda a: a["fitted"]["features"].pop()), "it should be"),
    "a wrong parameter": (lambda f: edit(f, lambda a: a["parameters"].update(n_chains=0)), "n_chains must be"),
    "a parameter of text": (lambda f: edit(f, lambda a: a["parameters"].update(n_sweeps="9")), "whole model"),
    "not JSON": (lambda f: (f / "model.json").write_text("{"), "cannot be read"),
    "a list": (lambda f: (f / "model.json").write_text("[]"), "this is no JSON object"),
    "no arrays": (lambda f: (f / "arrays.npz").unlink(), "'arrays.npz' is missing"),
    "arrays cut off": (
        lambda f: (f / "arrays.npz").write_bytes((f / "arrays.npz").read_bytes()[:-200]),
        "'arrays.npz' cannot be read: it is damaged",
    ),
    "no zip": (lambda f: (f / "arrays.npz").write_bytes(b"what"), "'arrays.npz' cannot be read"),
    "a pickle": (lambda f: (f / "arrays.npz").write_bytes(pickle.dumps(Evil())), "it is damaged"),
    "a pickled member": (pickled_member, "cannot be read: it holds pickled objects"),
    "numbers of another kind": (
        lambda f: edit_arrays(f, lambda a: a.update({"chain0.pseudo_counts": np.zeros((0, 0), int)})),
        "'chain0.pseudo_counts' is an array of another kind",
    ),
    "no labels": (lambda f: edit_arrays(f, lambda a: a.pop("labels")), "'labels' is missing"),
    "labels as a square": (
        lambda f: edit_arrays(f, lambda a: a.update(labels=np.zeros((3, 3), int))),
        r"'labels' has shape \(3, 3\)",
    ),
    "fewer labels": (lambda f: edit_arrays(f, lambda a: a.update(labels=a["labels"][1:])), "rows, and clusters"),
    "scales of text": (
        lambda f: edit_arrays(f, lambda a: a.update(scales=np.array(["a", "b", "c"]))),
        "'scales' holds <U1",
    ),
    "no precision": (lambda f: edit_arrays(f, lambda a: a.pop("chain1.precision")), "'chain1.precision' is missing"),
    "types out of range": (
        lambda f: edit_arrays(f, lambda a: a["chain0.type"].__setitem__(0, 99)),
        "names a type that has no precisions",
    ),
    "not finite": (
        lambda f: edit_arrays(f, lambda a: a["chain0.rate"].__setitem__(0, np.inf)),
        "'chain0.rate' holds a number that is not finite",
    ),
    "a negative variance": (
        lambda f: edit(f, lambda a: a["fitted"]["chains"][0].update(mean_variance=-1)),
        "it should be a number above 0",
    ),
    "no spec": (lambda f: (f / "spec.toml").unlink(), "'spec' is missing"),
    "a wrong spec": (lambda f: (f / "spec.toml").write_text('entity = "a"\nfoo = 1'), "unknown key 'foo'"),
    "a shorter spec": (lambda f: (f / "spec.toml").write_text('entity = "a"'), "the spec has 0 fields"),
    "no records": (lambda f: (f / "records.jsonl").unlink(), "'records' is missing"),
    "fewer records": (
        lambda f: (f / "records.jsonl").write_text('{"title": "a", "author": "b", "year": "1999"}\n'),
        "there are 1 rows, and clusters for",
    ),
    "records that are no JSON": (lambda f: (f / "records.jsonl").write_text("a,b\n"), "cannot be read"),
    "records of numbers": (lambda f: (f / "records.jsonl").write_text("1\n"), "it should be an object"),
    "draws that are damaged": (lambda f: (f / "posterior.npz").write_bytes(b"x"), "not a posterior saved by"),
}


@pytest.mark.parametrize("name", DAMAGES)
def test_what_is_not_understood_is_refused_in_one_sentence(name, folder):
    damage, says = DAMAGES[name]
    damage(folder)
    with pytest.raises(InputError, match=says) as caught:
        SCDP.load(folder)
    assert str(caught.value).startswith(str(folder))
    assert "\n" not in str(caught.value)
