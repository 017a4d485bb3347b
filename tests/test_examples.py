"""Public names have numpydoc sections, and their examples run."""

from __future__ import annotations

import doctest
import importlib
import inspect
import warnings
from pathlib import Path

import pytest

import scdp
from scdp import EntityResolver, blocking, compare, datasets, estimators, metrics, posterior


@pytest.fixture(scope="module")
def fitted():
    """What the example of `EntityResolver` makes."""
    names: dict[str, object] = {"EntityResolver": EntityResolver}
    finder = doctest.DocTestFinder(recurse=False)
    (example,) = finder.find(EntityResolver, globs=names)
    found = doctest.DocTestRunner().run(example, clear_globs=False)
    assert not found.failed
    return example.globs


SOURCE = Path(scdp.__file__).parent
# Those of the estimators build on one another, and have a test of their own below.
MODULES = [
    ".".join(("scdp", *path.relative_to(SOURCE).with_suffix("").parts)).removesuffix(".__init__")
    for path in sorted(SOURCE.rglob("*.py"))
    if ">>>" in path.read_text(encoding="utf-8") and path != SOURCE / "estimators" / "__init__.py"
]


@pytest.mark.parametrize("name", MODULES)
def test_the_examples_run(name, monkeypatch):
    monkeypatch.setattr("scdp.compare.kinds._registered", {})
    module = importlib.import_module(name)
    assert not doctest.testmod(module, extraglobs={"compare": compare}).failed


def test_the_examples_of_the_estimators_run(fitted):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = doctest.testmod(estimators, extraglobs=fitted)
    assert not found.failed
    assert found.attempted > 8


def with_methods(values):
    """Functions, and the public methods of classes, class methods as plain functions."""
    for value in values:
        yield value
        if inspect.isclass(value):
            members = [member for name, member in vars(value).items() if not name.startswith("_")]
            yield from (getattr(member, "__func__", member) for member in members)


def public_functions():
    for module in (compare, metrics):
        yield from (getattr(module, name) for name in module.__all__)
    for module in (blocking, datasets, posterior):
        yield from with_methods(getattr(module, name) for name in module.__all__)
    for name in ("EntityResolver", "SCDP", "Spec"):
        public = getattr(scdp, name)
        yield public
        yield from (value for key, value in vars(public).items() if not key.startswith("_"))
    yield from (value for key, value in vars(estimators.Estimator).items() if not key.startswith("_"))


# What estimators offer to the parts of the package, not to people.
INNER = {"check_parameters", "count_draws", "restore", "sample_new"}
DOCUMENTED = [each for each in public_functions() if inspect.isfunction(each) and each.__name__ not in INNER]


@pytest.mark.parametrize("function", DOCUMENTED, ids=lambda function: function.__qualname__)
def test_a_public_function_has_its_sections(function):
    text = inspect.getdoc(function) or ""
    parameters = [name for name in inspect.signature(function).parameters if name not in ("self", "cls")]
    assert not parameters or "Parameters\n---" in text
    assert "Returns\n---" in text or "Yields\n---" in text or function.__annotations__.get("return") == "None"
    assert ">>>" in text
