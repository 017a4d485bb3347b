"""The examples in the docstrings run and show what they say."""

from __future__ import annotations

import doctest
import inspect

from scdp import posterior
from scdp.posterior import Posterior


def test_the_examples_run():
    found = doctest.testmod(posterior)
    assert found.attempted > 15
    assert found.failed == 0


def test_every_public_method_says_what_it_returns():
    methods = {
        name: method.__doc__ or ""
        for name, method in inspect.getmembers(Posterior, inspect.isroutine)
        if not name.startswith("_") and name != "save"
    }
    assert len(methods) > 12
    assert [name for name, text in methods.items() if "Returns\n" not in text] == []
