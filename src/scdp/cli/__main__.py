"""`python -m scdp.cli` is the same as `scdp`."""

from __future__ import annotations

from scdp.cli import main

main(prog_name="scdp")
