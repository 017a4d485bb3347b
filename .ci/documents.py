"""Run every command and every Python example of documents, page by page, each from an empty folder.

    python .ci/documents.py README.md docs/tutorials/*.md          # in this process; models are kept from page to page
    python .ci/documents.py --commands README.md ...               # each command as a process, as a person types it

Only the package that this Python has installed is needed. It prints the time of each page, and ends with code 1 at the
first thing that fails, or that prints something else than the page says.
"""

from __future__ import annotations

import contextlib
import io
import os
import re
import shlex
import shutil
import subprocess
import sys
import time
import warnings
from pathlib import Path
from tempfile import TemporaryDirectory

FENCES = re.compile(r"^```(\w*)\n(.*?)^```$", flags=re.DOTALL | re.MULTILINE)
# What is done before, and what belongs to a clone.
BEFORE = ("pip install ", "make ")


class Runner:
    """Runs the blocks of pages; `models` are folders that an earlier page has fitted by the same command."""

    def __init__(self, as_commands: bool, kept: Path) -> None:
        self.as_commands, self.kept = as_commands, kept
        self.models: dict[str, Path] = {}

    def run_page(self, page: Path) -> int:
        """All examples of a page in its order; how many there were."""
        names: dict[str, object] = {}
        found = 0
        for language, block in FENCES.findall(page.read_text(encoding="utf-8")):
            if language == "sh":
                lines = [line for line in block.splitlines() if line and not line.startswith(BEFORE)]
                for line in lines:
                    self.run_command(line)
                found += len(lines)
            elif language == "python":
                self.run_python(block, page, names)
                found += 1
        return found

    def run_command(self, line: str) -> None:
        """One command of a page."""
        word, *arguments = shlex.split(line, comments=True)
        if word != "scdp":
            raise ValueError(f"{line}: no command of scdp")
        if self.as_commands:
            command = [str(Path(sys.executable).with_name("scdp")), *arguments]
            done = subprocess.run(command, capture_output=True, text=True)
            if done.returncode:
                raise ValueError(f"{line}: exit code {done.returncode}: {done.stderr}")
            return
        target = Path(arguments[arguments.index("--out") + 1]) if "--out" in arguments else None
        if arguments[0] == "fit" and target is not None and line in self.models:
            shutil.copytree(self.models[line], target)
            return
        self.run_here(line, arguments)
        if arguments[0] == "fit" and target is not None:
            self.models[line] = self.kept / str(len(self.models))
            shutil.copytree(target, self.models[line])

    def run_here(self, line: str, arguments: list[str]) -> None:
        """A command in this process."""
        from click.testing import CliRunner

        from scdp.cli import main

        result = CliRunner().invoke(main, arguments)
        if result.exit_code:
            raise ValueError(f"{line}: exit code {result.exit_code}: {result.output}")

    def run_python(self, block: str, page: Path, names: dict[str, object]) -> None:
        """A Python example: what it prints is what stands behind each print."""
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            exec(compile(block, page.name, "exec"), names)
        said = re.findall(r"^print\(.*\)  # (.+)$", block, re.MULTILINE)
        shown = printed.getvalue().splitlines()
        # README says in words what its numbers are.
        if page.name != "README.md" and shown != said:
            raise ValueError(f"{page.name}: prints {shown}, and says {said}")


def main(arguments: list[str]) -> int:
    """Run the pages that are named."""
    as_commands = "--commands" in arguments
    pages = [Path(name).resolve() for name in arguments if name != "--commands"]
    home = Path.cwd()
    with TemporaryDirectory() as kept:
        runner = Runner(as_commands, Path(kept))
        for page in pages:
            start = time.monotonic()
            with TemporaryDirectory() as folder:
                os.chdir(folder)
                try:
                    found = runner.run_page(page)
                except Exception as error:
                    print(f"{page}: {error}", file=sys.stderr)
                    return 1
                finally:
                    os.chdir(home)
            print(f"{page.name}: {found} examples, {time.monotonic() - start:.0f} s", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
