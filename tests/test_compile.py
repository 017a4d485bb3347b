"""How kernels are compiled: a cache keyed by every kernel source, and none where nothing can be written."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from loaded_processes import run_loaded
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


def test_the_digest_follows_constants_that_kernels_take_from_elsewhere(tmp_path: Path, monkeypatch):
    package = tmp_path / "scdp"
    package.mkdir()
    files = {
        "kernels.py": "from scdp.one import (\n    LIMIT,\n)\nfrom scdp.two import name\n@kernel\ndef f(): pass\n",
        "one.py": "from scdp.three import WIDTH\nLIMIT = WIDTH + 1\n",
        "two.py": "name = 1\n",
        "three.py": "WIDTH = 2\n",
    }
    for name, text in files.items():
        (package / name).write_text(text, encoding="utf-8")
    monkeypatch.setattr(compiling, "_PACKAGE", package)
    digests = [compiling.kernel_sources_digest.__wrapped__()]
    for name in ("one.py", "three.py", "two.py"):
        (package / name).write_text(files[name] + "# changed\n", encoding="utf-8")
        digests.append(compiling.kernel_sources_digest.__wrapped__())
    assert len(set(digests)) == 3
    assert digests[2] == digests[3]


def test_another_copy_of_the_package_finds_kernels_compiled(tmp_path: Path):
    copy = tmp_path / "elsewhere"
    shutil.copytree(Path(compiling.__file__).parent, copy / "scdp", copy_function=shutil.copyfile)
    code = f"{KERNEL}; print(log_table.__module__, __import__('scdp').__file__)"
    found = [run(code, SCDP_CACHE=str(tmp_path / "cache"), **path) for path in ({}, {"PYTHONPATH": str(copy)})]
    ours = Path(compiling.__file__).parent / "__init__.py"
    assert [one.splitlines() for one in found] == [
        ["0.6931471805599453 0", f"scdp.chains.arithmetic {ours}"],
        ["0.6931471805599453 1", f"scdp.chains.arithmetic {copy / 'scdp' / '__init__.py'}"],
    ]


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
        "import numba; before = numba.config.CACHE_DIR; import scdp.chains.vector_clusters; "
        "print(numba.config.CACHE_DIR == before)"
    )
    assert run(code) == "True"


KERNEL = (
    "from scdp.chains.arithmetic import log_table; print(log_table(2)[2], sum(log_table.stats.cache_hits.values()))"
)


def kernel_run(folder: Path) -> tuple[str, str]:
    """What a kernel gives and how often it was found in the cache; and what is said on the way."""
    done = run_loaded([], KERNEL, {"SCDP_CACHE": str(folder)})
    assert done.returncode == 0, done.stderr
    return done.stdout.strip(), done.stderr


@pytest.fixture(scope="module")
def filled(tmp_path_factory) -> Path:
    """A cache with one kernel, which was not there at first and is found again; only to be copied."""
    folder = tmp_path_factory.mktemp("filled")
    assert kernel_run(folder) == ("0.6931471805599453 0", "")
    assert kernel_run(folder) == ("0.6931471805599453 1", "")
    return folder


def damage_by_cutting(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:40])


def damage_by_emptying(path: Path) -> None:
    path.write_bytes(b"")


def damage_by_a_bit(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


def damage_by_a_folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


def damage_by_zeros(path: Path) -> None:
    path.write_bytes(bytes(path.stat().st_size))


def damage_by_a_pipe(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


def damage_by_a_device(path: Path) -> None:
    path.unlink()
    path.symlink_to("/dev/zero")


def damage_by_size(path: Path) -> None:
    """More than any memory, of which the disk holds nothing."""
    os.truncate(path, 1 << 40)


ANYWHERE = [damage_by_cutting, damage_by_emptying, damage_by_zeros, damage_by_a_bit, damage_by_a_folder]
OF_POSIX = [damage_by_a_pipe, damage_by_a_device, damage_by_size]


@pytest.mark.parametrize("damage", [*ANYWHERE, *(pytest.param(each, marks=pytest.mark.posix) for each in OF_POSIX)])
@pytest.mark.parametrize("ending", ["nbi", "nbc"])
def test_a_damaged_cache_is_a_warning_and_mends(filled: Path, tmp_path: Path, damage, ending):
    shutil.copytree(filled, tmp_path, dirs_exist_ok=True)
    (found,) = tmp_path.rglob(f"arithmetic.log_table*.{ending}")
    damage(found)
    result, said = kernel_run(tmp_path)
    assert result == "0.6931471805599453 0"
    if damage is not damage_by_a_folder or ending == "nbi":
        assert said.count("KernelCacheWarning") == 1
    if damage is not damage_by_a_folder:
        assert kernel_run(tmp_path) == ("0.6931471805599453 1", "")


@pytest.mark.skipif(os.name != "posix", reason="modes of POSIX")
def test_a_cache_that_everybody_can_write_is_not_used(tmp_path: Path):
    kernel_run(tmp_path)
    folder = tmp_path / "scdp" / "kernels" / compiling.kernel_sources_digest()
    folder.chmod(0o777)
    assert run("from scdp._compile import cache_folder; print(cache_folder())", SCDP_CACHE=str(tmp_path)) == "None"


def test_a_command_says_a_warning_in_a_sentence(tmp_path: Path):
    (tmp_path / "a.csv").write_text("id,cluster\n1,a\n2,a\n", encoding="utf-8")
    code = (
        "import warnings; from scdp import metrics; from scdp.cli import main\n"
        "from scdp._compile import KernelCacheWarning\n"
        "metrics.evaluate = lambda *_: warnings.warn('kernels are compiled anew', KernelCacheWarning) or {}\n"
        "main(['evaluate', 'a.csv', 'a.csv'])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=tmp_path)
    assert done.stderr == "scdp: note: kernels are compiled anew\n"
