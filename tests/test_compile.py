"""How kernels are compiled: a cache keyed by every kernel source, and none where nothing can be written."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from scdp import _compile as compiling


def run(code: str, **environment: str) -> str:
    command = [sys.executable, "-W", "error", "-c", code]
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=os.environ | environment)
    return done.stdout.strip()


def test_the_cache_folder_is_named_after_the_kernel_sources(tmp_path: Path):
    folder = run("from scdp._compile import cache_folder; print(cache_folder())", SCDP_CACHE=str(tmp_path))
    assert folder == str(tmp_path / "scdp" / "kernels" / compiling.kernel_sources_digest())


def test_the_digest_follows_every_file_with_kernels(tmp_path: Path, monkeypatch):
    before = compiling.kernel_sources_digest()
    (tmp_path / "one.py").write_text("@kernel\ndef f(): pass\n", encoding="utf-8")
    monkeypatch.setattr(compiling, "_PACKAGE", tmp_path)
    first = compiling.kernel_sources_digest.__wrapped__()
    (tmp_path / "one.py").write_text("@kernel\ndef f(): return 1\n", encoding="utf-8")
    second = compiling.kernel_sources_digest.__wrapped__()
    (tmp_path / "plain.py").write_text("x = 1\n", encoding="utf-8")
    assert len({before, first, second}) == 3
    assert compiling.kernel_sources_digest.__wrapped__() == second


def test_without_a_writable_folder_kernels_still_work(tmp_path: Path):
    in_the_way = tmp_path / "file"
    in_the_way.write_text("not a folder", encoding="utf-8")
    code = (
        "import numpy as np; from scdp._compile import cache_folder; from scdp.chains.arithmetic import log_table; "
        "print(cache_folder(), log_table(2)[2])"
    )
    assert run(code, SCDP_CACHE=str(in_the_way)) == f"None {0.6931471805599453}"


def test_numba_settings_of_others_are_left_alone():
    code = (
        "import numba; before = numba.config.CACHE_DIR; import scdp.chains.vectors.clusters; "
        "print(numba.config.CACHE_DIR == before)"
    )
    assert run(code) == "True"
