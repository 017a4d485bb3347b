"""The server of a page is killed while people answer: every answer that was acknowledged is in the file."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import threading
from pathlib import Path

import httpx
import pytest

from report_cases import made_result
from scdp.results import write_result
from scdp.table.decisions import read_decisions

pytestmark = pytest.mark.skipif(os.name == "nt", reason="no SIGKILL")
N_PEOPLE = 3


def start(result: Path) -> tuple[subprocess.Popen[str], str]:
    """The command, and the address of its page."""
    running = subprocess.Popen(
        [sys.executable, "-m", "scdp.cli", "review", str(result), "--no-open", "--quiet"],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        env=os.environ | {"PYTHONUNBUFFERED": "1"},
    )
    return running, running.stdout.readline().strip()


def answer(address: str, told: list[str], enough: threading.Event, wanted: int) -> None:
    """Answer until the server is gone; `told` holds the number of each question whose answer was acknowledged."""
    home = address.split("/?")[0]
    with httpx.Client(base_url=home, follow_redirects=True, timeout=30) as client:
        try:
            client.get(address)
            while not enough.is_set():
                found = re.search(r'name="question" value="(\d+)"', client.get("/").text)
                if found is None:
                    return
                data = {"question": found[1], "action": "different"}
                said = client.post("/answer", data=data, headers={"origin": home}, follow_redirects=False)
                if said.status_code == 303:
                    told.append(found[1])
                if len(told) >= wanted:
                    enough.set()
        except httpx.HTTPError:
            return


@pytest.mark.parametrize("n_answers", [1, 2, 5])
def test_killed_while_people_answer_nothing_acknowledged_is_lost(tmp_path: Path, n_answers: int):
    result = tmp_path / "result"
    write_result(made_result(), result)
    kept = 0
    for _ in range(2):
        running, address = start(result)
        told: list[str] = []
        enough = threading.Event()
        people = [threading.Thread(target=answer, args=(address, told, enough, n_answers)) for _ in range(N_PEOPLE)]
        for person in people:
            person.start()
        enough.wait(60)
        running.send_signal(signal.SIGKILL)
        running.wait()
        for person in people:
            person.join()
        running.stdout.close()
        assert len(told) >= n_answers
        # Others may have been written that nobody was told of; of those told of, none is missing.
        now = len(read_decisions(result / "decisions.jsonl"))
        assert now >= kept + len(told)
        kept = now
