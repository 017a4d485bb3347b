"""Tampered models, kept shards and stores: each gives a right result or exit code 2, within 10 s of processor time.

python -m benchmarks.tampered [--examples 1000] [--start 0]
A third each, rounded up. A model is judged by its exit code alone, since another number in it is another model; of
shards and stores the result must be the one without tampering. The exit code is 1 if one was wrong, slow or of another
exit code.
"""

from __future__ import annotations

import argparse
import os
import resource
import shutil
import signal
import sys
import tempfile
import warnings
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from random import Random

from click.testing import CliRunner

from fault_cases import entities_of, prepare
from fuzz_cases import changed_file
from scdp.cli import main as command
from scdp.report import outputs

MOST_SECONDS = 10


class Study:
    """Folders that are whole, and the commands that read them."""

    def __init__(self, folder: Path) -> None:
        self.given, self.work = prepare(folder / "given"), folder / "work"
        self.clusters = ("cluster", "@resolver", "@test.csv", "--out", "@n.csv", "--quiet")
        shutil.copytree(self.given, self.work)
        self._leave_shards()
        self.shards = folder / "shards"
        shutil.copytree(self.work, self.shards)
        assert run(self.work, *self.clusters, "--resume") == 0
        self.right = (self.work / "n.csv").read_bytes()
        self.entities = entities_of(self.given)

    def _leave_shards(self) -> None:
        """As a run does that is interrupted before it writes."""

        def stop(*_: object) -> None:
            raise KeyboardInterrupt

        really, outputs.write_outputs = outputs.write_outputs, stop
        run(self.work, *self.clusters)
        outputs.write_outputs = really
        assert list(self.work.rglob("shard-*.npz"))

    def try_model(self, rng: Random) -> str:
        name = rng.choice(("model", "resolver"))
        words = ("cluster", f"@{name}", "@test.csv", "--out", "@n.csv", "--quiet")
        return self._try(rng, self.given, name, words, lambda: True)

    def try_shard(self, rng: Random) -> str:
        words, out = (*self.clusters, "--resume"), self.work / "n.csv"
        return self._try(rng, self.shards, "n.csv.checkpoint/shards", words, lambda: out.read_bytes() == self.right)

    def try_store(self, rng: Random) -> str:
        def is_right() -> bool:
            return changed.startswith("model") or entities_of(self.work) == self.entities

        changed = rng.choice(sorted(path.name for path in (self.given / "store").iterdir()))
        place = "store/model" if changed == "model" else "store"
        words = rng.choice((("lookup", "@store", '{"title": "a"}'), ("update", "@store", "@first.csv", "--quiet")))
        return self._try(rng, self.given, place, words, is_right)

    def _try(self, rng: Random, given: Path, place: str, words: tuple[str, ...], is_right: Callable[[], bool]) -> str:
        shutil.rmtree(self.work)
        shutil.copytree(given, self.work)
        files = {path.name: path.read_bytes() for path in (self.work / place).iterdir() if path.is_file()}
        name, content = changed_file(rng, files)
        (self.work / place / name).write_bytes(content)
        code = in_a_copy(lambda: run(self.work, *words))
        if code == 0:
            return "right" if is_right() else f"WRONG ({name})"
        if code == -signal.SIGXCPU:
            return f"SLOW ({name})"
        return "exit code 2" if code == 2 else f"EXIT CODE {code} ({name})"


def run(folder: Path, *words: str) -> int:
    result = CliRunner().invoke(command, [word.replace("@", f"{folder}/") for word in words])
    if result.exit_code == 1:
        print(result.output[-400:], file=sys.stderr)
    return result.exit_code


def in_a_copy(work: Callable[[], int]) -> int:
    """The exit code of work in a copy of this process, which may take so long and no longer."""
    sys.stdout.flush()
    process = os.fork()
    if not process:
        used = sum(os.times()[:2])
        resource.setrlimit(resource.RLIMIT_CPU, (int(used) + MOST_SECONDS, int(used) + MOST_SECONDS + 1))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        os._exit(work())
    return os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--examples", type=int, default=1000)
    parser.add_argument("--start", type=int, default=0, help="number of the first example")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    wrong = 0
    with tempfile.TemporaryDirectory(prefix="scdp-tampered-") as folder:
        study = Study(Path(folder))
        for what, attempt in (("shards", study.try_shard), ("stores", study.try_store), ("models", study.try_model)):
            found: Counter[str] = Counter()
            for number in range(options.start, options.start - (-options.examples // 3)):
                ended = attempt(Random(f"{what} {number}"))
                found[ended] += 1
                if ended not in ("right", "exit code 2"):
                    print(f"{what} {number}: {ended}", flush=True)
                    wrong += 1
            print(f"{what}: {', '.join(f'{count} {ended}' for ended, count in found.most_common())}", flush=True)
    print(f"{wrong} wrong, slow or of another exit code")
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main())
