"""A long life in one process: fits and predictions of the resolver, and people who answer over loopback.

python -m benchmarks.soak [--fits 100] [--predictions 500] [--answers 2880]
So many answers are eight hours with one every ten seconds, in fast motion.
Memory is what the process has resident. It is flat if the median of the last fifth of the rounds is within 5 % of that
of the second fifth. No answer that was taken may be missing in the file. The exit code is 1 if a bar is missed.
"""

from __future__ import annotations

import argparse
import gc
import re
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from random import Random

import httpx
import numpy as np

from product_cases import FIELDS, citations
from review_site import running
from scdp import EntityResolver, Spec, compare
from scdp.table.decisions import read_decisions

MOST_GROWTH = 0.05
SIZE_OF_BLOCK = 3


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    for name, count in (("fits", 100), ("predictions", 500), ("answers", 2880)):
        parser.add_argument(f"--{name}", type=int, default=count)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    train, test = citations()
    known = np.unique(train.clusters, return_inverse=True)[1]
    spec = Spec("entity", [compare.edit(name) for name in FIELDS[:2]])
    model = EntityResolver(spec=spec, random_state=0).fit(train.data, known)
    flat = [
        rounds(options.fits, "fits", lambda: EntityResolver(spec=spec, random_state=0).fit(train.data, known)),
        rounds(options.predictions, "predictions", lambda: model.predict(test.data)),
        answers(options.answers),
    ]
    return int(not all(flat))


def rounds(count: int, what: str, work: Callable[[], object]) -> bool:
    """Do the work so many times; whether memory stays flat."""
    seen = []
    for _ in range(count):
        work()
        gc.collect()
        seen.append(resident_bytes())
    fifth = max(1, count // 5)
    begin, end = np.median(seen[fifth : 2 * fifth]), np.median(seen[-fifth:])
    growth = end / begin - 1.0
    print(
        f"{count} {what}: {begin / 1e6:.0f} MB in the second fifth, {end / 1e6:.0f} MB in the last ({growth:+.1%})",
        flush=True,
    )
    return bool(growth <= MOST_GROWTH)


def resident_bytes() -> int:
    status = Path("/proc/self/status").read_text(encoding="ascii")
    return 1024 * int(re.findall(r"^VmRSS:\s+(\d+)", status, re.MULTILINE)[0])


def answers(count: int) -> bool:
    """A person who answers, looks around and takes one answer in ten back; what stands is in the file."""
    with (
        tempfile.TemporaryDirectory(prefix="scdp-soak-") as folder,
        # A block is asked about once or more.
        running(Path(folder), n_blocks=count) as (site, address),
        httpx.Client(base_url=address.split("/?")[0], follow_redirects=True, timeout=60) as client,
    ):
        client.get(address)
        rng = Random(0)
        flat = rounds(count, "answers over loopback", lambda: answer(client, takes_back=rng.random() < 0.1))
        written, counted = len(read_decisions(site.session.log.path)), site.session.n_answers
    print(f"{counted} answers stand, {written} decisions are in the file")
    return flat and counted == written > 0


def answer(client: httpx.Client, takes_back: bool) -> None:
    """Ask for a question, answer it, look at other pages, and perhaps take the answer back."""
    origin = {"origin": str(client.base_url)}
    while (question := re.search(r'name="question" value="(\d+)"', client.get("/").text)) is None:
        # The next questions are being looked for.
        time.sleep(0.01)
    data = {"question": question[1], "action": "different"}
    assert client.post("/answer", data=data, headers=origin).status_code == 200
    for page in ("/status", "/clusters"):
        assert client.get(page).status_code == 200
    if takes_back:
        assert client.post("/undo", headers=origin).status_code == 200


if __name__ == "__main__":
    sys.exit(main())
