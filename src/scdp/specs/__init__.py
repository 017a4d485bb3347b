"""Specs: what enters a model of records, written by hand, read from TOML, proposed, or the paper's own."""

from __future__ import annotations

from scdp.specs.paper import coreference_spec, identity_spec, references_spec
from scdp.specs.spec import Spec, propose

__all__ = ["Spec", "coreference_spec", "identity_spec", "propose", "references_spec"]
