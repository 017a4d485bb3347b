"""A small table under review: made-up records and draws, a session without learning, and a server in a thread."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import numpy as np

from scdp.review import Session
from scdp.review.beliefs import Beliefs
from scdp.review.questions import no_others
from scdp.review.server import Site, address_of, listen, make_app, names_of
from scdp.review.view import TableView
from scdp.table import Records, records_from
from scdp.table.decisions import DecisionLog

TOKEN = "a-token-for-tests"


class DrawsOnly:
    """A source that never learns: draws stay, conditioned on what was decided."""

    def __init__(self, draws: np.ndarray, n_members: int = 4) -> None:
        self.draws, self.n_members = draws, n_members

    def refresh(self, constraints, before):
        if before is not None:
            return before
        beliefs = Beliefs(self.draws, n_members=self.n_members)
        beliefs.condition(constraints, range(self.draws.shape[1]))
        return beliefs

    def others(self, beliefs):
        return no_others()


def doubtful_draws(n_blocks: int, n_draws: int = 40, size: int = 3, seed: int = 0) -> np.ndarray:
    """Blocks of records, each of them in doubt on its own: every draw parts each block anew."""
    rng = np.random.default_rng(seed)
    draws = np.empty((n_draws, n_blocks * size), dtype=np.int32)
    for block in range(n_blocks):
        for draw in range(n_draws):
            draws[draw, block * size : (block + 1) * size] = block * size + rng.integers(0, size, size)
    return draws


def make_table(n: int) -> Records:
    return records_from(
        {
            "name": [f"Person {row // 3} <b>&amp;</b>" for row in range(n)],
            "city": [None if row % 7 == 0 else f"City {row % 5} \u202e" for row in range(n)],
            "note": [f"<script>alert({row})</script>" for row in range(n)],
        }
    )


def make_site(folder: Path, n_blocks: int = 12, port: int = 80, preset: bool = False) -> Site:
    draws = doubtful_draws(n_blocks)
    records = make_table(draws.shape[1])
    ids = [f"r{row}" for row in range(draws.shape[1])]
    log = DecisionLog(folder / "decisions.jsonl", ids)
    session = Session(log, DrawsOnly(draws), seed=1)
    view = TableView(records, ids, records.names)
    return Site("Test", session, view, preset, TOKEN, names_of("127.0.0.1", port), "tester")


class Visitor:
    """A browser without a window: requests go straight to the application, cookies are kept, redirects followed."""

    def __init__(self, site: Site, home: str) -> None:
        self._app, self._home, self._cookies = make_app(site), home, httpx.Cookies()

    def get(self, path: str, follow: bool = True, **more) -> httpx.Response:
        return asyncio.run(self._send("GET", path, follow, **more))

    def post(self, path: str, **more) -> httpx.Response:
        return asyncio.run(self._send("POST", path, True, **more))

    async def _send(self, method: str, path: str, follow: bool, **more) -> httpx.Response:
        through = httpx.ASGITransport(self._app)
        async with httpx.AsyncClient(transport=through, base_url=self._home, cookies=self._cookies) as client:
            answer = await client.request(method, path, follow_redirects=follow, **more)
            self._cookies = client.cookies
            return answer


@contextmanager
def running(folder: Path, n_blocks: int = 12, preset: bool = False) -> Iterator[tuple[Site, str]]:
    """The site behind a real server, and the address to open."""
    import uvicorn

    taken = listen("127.0.0.1", 0)
    site = make_site(folder, n_blocks, taken.getsockname()[1], preset)
    site.session.start()
    server = uvicorn.Server(uvicorn.Config(make_app(site), log_level="error", lifespan="off"))
    thread = threading.Thread(target=lambda: server.run(sockets=[taken]), daemon=True)
    thread.start()
    while not server.started:
        time.sleep(0.01)
    try:
        yield site, address_of(site)
    finally:
        server.should_exit = True
        thread.join()
        site.session.stop()
        taken.close()
