"""How long a page takes with many records.

python -m benchmarks.review_speed [--records 1000000] [--draws 48] [--requests 10]

Draws are made up: pairs and triples of records, a tenth of them in doubt. Printed are the seconds to start, and the
median and the longest time of each kind of request while answers come in.
"""

from __future__ import annotations

import argparse
import asyncio
import re
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import numpy as np

from scdp.review import Session
from scdp.review.beliefs import Beliefs
from scdp.review.questions import no_others
from scdp.review.server import Site, make_app, names_of
from scdp.review.view import TableView
from scdp.table import Records
from scdp.table.decisions import DecisionLog

TOKEN, HOST = "token", "127.0.0.1:8100"


class MadeUp:
    """A source of made-up draws that never learns."""

    def __init__(self, draws: np.ndarray[Any, Any]) -> None:
        self.draws = draws

    def refresh(self, constraints: Any, before: Beliefs | None) -> Beliefs:
        return before if before is not None else Beliefs(self.draws, n_members=8)

    def others(self, beliefs: Beliefs) -> Any:
        return no_others()


def make_draws(n: int, n_draws: int) -> np.ndarray[Any, Any]:
    """Each record with the two after it, in a tenth of the triples only in some draws."""
    rng = np.random.default_rng(0)
    home = np.arange(n, dtype=np.int32) // 3 * 3
    draws = np.tile(home, (n_draws, 1))
    doubtful = np.flatnonzero((home // 3) % 10 == 0)
    alone = rng.random((n_draws, len(doubtful))) < 0.4
    draws[:, doubtful] = np.where(alone, doubtful.astype(np.int32), draws[:, doubtful])
    return draws


async def measure(site: Site, n_requests: int) -> dict[str, list[float]]:
    """Seconds by kind of request."""
    seconds: dict[str, list[float]] = {}
    async with httpx.AsyncClient(
        transport=httpx.ASGITransport(make_app(site)), base_url=f"http://{HOST}", follow_redirects=True
    ) as client:

        async def timed(kind: str, send: Callable[[], Any]) -> str:
            begin = time.perf_counter()
            answer = await send()
            seconds.setdefault(kind, []).append(time.perf_counter() - begin)
            assert answer.status_code == 200, answer.text
            return str(answer.text)

        await client.get("/", params={"token": TOKEN})
        for number in range(n_requests):
            page = await timed("question", lambda: client.get("/"))
            found = re.search(r'name="question" value="(\d+)"', page)
            assert found is not None
            data = {"question": found[1], "action": "same"}
            origin = {"origin": f"http://{HOST}"}
            await timed(
                "answer and next question",
                lambda data=data, origin=origin: client.post("/answer", data=data, headers=origin),
            )
            await timed("list of clusters", lambda: client.get("/clusters"))
            row = 3000 * number
            await timed("cluster", lambda row=row: client.get(f"/cluster?row={row}"))
            words = f"name {row} street"
            await timed("search", lambda words=words: client.get("/clusters", params={"q": words}))
            await timed("undo", lambda: client.post("/undo", headers={"origin": f"http://{HOST}"}))
            await timed("status", lambda: client.get("/status"))
    return seconds


def main() -> None:
    """Print the times."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--records", type=int, default=1_000_000)
    parser.add_argument("--draws", type=int, default=48)
    parser.add_argument("--requests", type=int, default=10)
    given = parser.parse_args()
    n = given.records
    begin = time.perf_counter()
    names = np.array([f"name {row // 3} of somebody" for row in range(n)], dtype=object)
    streets = np.array([f"{row % 97} street of {row % 1013}" for row in range(n)], dtype=object)
    records = Records({"name": names, "street": streets})
    ids = [f"r{row}" for row in range(n)]
    view = TableView(records, ids, records.names)
    with tempfile.TemporaryDirectory() as folder:
        log = DecisionLog(Path(folder) / "decisions.jsonl", ids)
        session = Session(log, MadeUp(make_draws(n, given.draws)))
        view.prepare()
        session.start()
        while session.is_learning:
            time.sleep(0.2)
        print(f"{n:,} records, {given.draws} draws: ready after {time.perf_counter() - begin:.1f} s")
        site = Site("speed", session, view, True, TOKEN, names_of("127.0.0.1", 8100))
        for kind, seconds in asyncio.run(measure(site, given.requests)).items():
            print(f"{kind:26} median {1000 * np.median(seconds):6.0f} ms, longest {1000 * max(seconds):6.0f} ms")
        session.stop()


if __name__ == "__main__":
    main()
