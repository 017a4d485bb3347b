"""The command line as a whole: quick help, lazy commands, and one line for every error."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

import scdp
from scdp.cli import LazyGroup, main
from scdp.errors import DataNotFoundError, InputError, MissingExtraError, ScdpError

HEAVY = ("pandas", "sklearn", "numba", "matplotlib", "duckdb", "scipy")
COMMAND_FILES = sorted((Path(scdp.__file__).parent / "cli").rglob("*_command*.py"))


def run(*arguments):
    return subprocess.run([sys.executable, "-m", "scdp.cli", *arguments], capture_output=True, text=True, timeout=900)


def modules_loaded_by(statement):
    code = f"import sys; {statement}; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=900)
    return {name.split(".")[0] for name in done.stdout.split()}


# ---- quick and complete ----


def test_importing_scdp_loads_nothing_heavy():
    assert not modules_loaded_by("import scdp").intersection(HEAVY)


def test_importing_the_command_line_loads_only_click_and_the_standard_library():
    assert not modules_loaded_by("import scdp.cli").intersection({*HEAVY, "numpy", "rich", "pydantic"})


def test_version():
    done = run("--version")
    assert (done.returncode, done.stdout.strip()) == (0, f"scdp, version {scdp.__version__}")


def test_every_command_module_is_listed():
    listed = {module for module, _ in main.commands_by_name.values()}
    assert {module.rpartition(".")[2] for module in listed} == {path.stem for path in COMMAND_FILES}


@pytest.mark.parametrize("name", main.commands_by_name)
def test_every_command_shows_its_help(name):
    result = CliRunner().invoke(main, [name, "--help"])
    assert result.exit_code == 0
    assert result.output.startswith(f"Usage: main {name}")
    assert name in CliRunner().invoke(main, ["--help"]).output


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_shells_complete_commands_and_options(shell, monkeypatch):
    def completed(words, *last):
        typed = " ".join([*words, *last])
        count = str(len(words)) if shell != "fish" else "".join(last)
        environment = {"_SCDP_COMPLETE": f"{shell}_complete", "COMP_WORDS": typed, "COMP_CWORD": count}
        return CliRunner().invoke(main, [], env=environment, prog_name="scdp").stdout

    assert (
        "_SCDP_COMPLETE" in CliRunner().invoke(main, env={"_SCDP_COMPLETE": f"{shell}_source"}, prog_name="scdp").stdout
    )
    assert "cluster" in completed(["scdp"], "clu")
    assert "--answer" in completed(["scdp", "cluster"], "--an")


def test_help_shows_examples():
    assert "Examples:\n    scdp " in CliRunner().invoke(main, ["--help"]).output


@pytest.mark.parametrize("arguments", [["--nonsense"], ["nonsense"], ["evaluate"], ["evaluate", "--nonsense"]])
def test_wrong_usage_exits_with_2(arguments):
    result = CliRunner().invoke(main, arguments)
    assert result.exit_code == 2
    assert "Usage:" in result.stderr
    assert "Traceback" not in result.output


# ---- errors ----


def group_that_raises(error):
    group = LazyGroup("scdp", commands_by_name={})

    @click.command()
    def fail():
        raise error

    group.get_command = lambda ctx, name: fail
    return group


@pytest.mark.parametrize(
    ("error", "exit_code", "line"),
    [
        (InputError("a.csv: row 3\n  is bad"), 2, "scdp: error: a.csv: row 3 is bad\n"),
        (DataNotFoundError("no data"), 2, "scdp: error: no data\n"),
        (ScdpError("it broke"), 1, "scdp: error: it broke\n"),
        (MissingExtraError("arviz", "arviz", "to_arviz"), 1, "scdp: error: to_arviz needs arviz"),
        (KeyError("x"), 1, "scdp: error: unexpected KeyError: 'x' (set SCDP_DEBUG=1 to see where)\n"),
        (KeyboardInterrupt(), 130, "scdp: interrupted\n"),
        # What DuckDB makes of Ctrl-C.
        (RuntimeError("Query interrupted"), 130, "scdp: interrupted\n"),
        (click.UsageError("no such thing"), 2, "Usage: scdp"),
    ],
)
def test_errors_are_one_line_with_their_exit_code(monkeypatch, error, exit_code, line):
    monkeypatch.delenv("SCDP_DEBUG", raising=False)
    result = CliRunner().invoke(group_that_raises(error), ["fail"])
    assert result.exit_code == exit_code
    assert result.stderr.startswith(line)
    assert result.stdout == ""


def test_debugging_shows_unexpected_errors_but_not_the_users_mistakes(monkeypatch):
    monkeypatch.setenv("SCDP_DEBUG", "1")
    with pytest.raises(KeyError):
        CliRunner().invoke(group_that_raises(KeyError("x")), ["fail"], catch_exceptions=False)
    assert CliRunner().invoke(group_that_raises(InputError("bad")), ["fail"]).exit_code == 2


@pytest.mark.skipif(os.name != "posix", reason="pipes close differently elsewhere")
def test_a_closed_pipe_is_no_error_to_talk_about(tmp_path):
    (tmp_path / "a.csv").write_text("id,cluster\na,1\n")
    reader, writer = os.pipe()
    os.close(reader)
    arguments = [sys.executable, "-m", "scdp.cli", "evaluate", "a.csv", "a.csv"]
    done = subprocess.run(arguments, stdout=writer, stderr=subprocess.PIPE, text=True, timeout=900, cwd=tmp_path)
    os.close(writer)
    assert done.stderr == ""
