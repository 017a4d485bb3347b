"""Why data sets are read and fetched by our own code: the same files and servers given to rdata and to pooch.

    python -m pip install rdata pooch
    python -m benchmarks.dataset_libraries

Files that lie are read in a process of its own, of at most 4 GB and 20 seconds of processor time.
"""

from __future__ import annotations

import gzip
import hashlib
import logging
import resource
import struct
import subprocess
import sys
import tempfile
import threading
import time
import warnings
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.metadata import requires
from pathlib import Path
from typing import Any

from scdp.paper.files import columns_of, fetch_file, read_rda, require

MOST_BYTES, MOST_SECONDS = 4 << 30, 20
N_CUTS = 300
CHUNK = bytes(1 << 20)
N_CHUNKS = 300
READ = "import sys; from benchmarks.dataset_libraries import read_within_limits; read_within_limits(*sys.argv[1:])"


def main() -> None:
    print("What they need:", "; ".join(f"{name}: {', '.join(needs_of(name))}" for name in ("rdata", "pooch")))
    with tempfile.TemporaryDirectory() as folder:
        compare_readers(Path(folder) / "file.rda")
        compare_fetchers(Path(folder))


def needs_of(name: str) -> list[str]:
    """What a package requires, without its extras."""
    return [need for need in requires(name) or () if "extra ==" not in need]


def read_by_us(path: Path) -> object:
    """The table of a file, or of any object that it holds."""
    objects = read_rda(path)
    return columns_of(objects["RLdata500"], str(path)) if "RLdata500" in objects else objects


def read_by_rdata(path: Path) -> object:
    """The same by rdata, without its warnings."""
    import rdata

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return rdata.read_rda(path)


READERS: dict[str, Callable[[Path], object]] = {"ours": read_by_us, "rdata": read_by_rdata}


def compare_readers(path: Path) -> None:
    """Time for the one file of a data set, what its beginnings raise, and files that lie."""
    whole = gzip.decompress(require("rldata500", "raw/RLdata500.rda").read_bytes())
    for name, read in READERS.items():
        path.write_bytes(whole)
        read(path)
        start = time.process_time()
        read(path)
        seconds = time.process_time() - start
        raised: Counter[str] = Counter()
        for n in range(0, len(whole), len(whole) // N_CUTS):
            path.write_bytes(whole[:n])
            try:
                read(path)
            except Exception as error:
                raised[type(error).__name__] += 1
        print(f"{name}: RLdata500 in {1000 * seconds:.0f} ms; cut short it raises {dict(raised)}")
    for what, content in make_lies().items():
        path.write_bytes(content)
        for name in READERS:
            done = subprocess.run([sys.executable, "-c", READ, name, path], capture_output=True, text=True, check=False)
            print(f"{what}, {len(content)} bytes; {name}: {done.stdout.strip() or 'was ended by the limit of time'}")


def read_within_limits(name: str, path: str) -> None:
    """Read a file and say what came of it."""
    resource.setrlimit(resource.RLIMIT_AS, (MOST_BYTES, MOST_BYTES))
    resource.setrlimit(resource.RLIMIT_CPU, (MOST_SECONDS, MOST_SECONDS))
    start = time.process_time()
    try:
        READERS[name](Path(path))
        outcome = "read"
    except Exception as error:
        outcome = f"{type(error).__name__}: {error}"
    print(f"{time.process_time() - start:.1f} s, {outcome}")


def make_lies() -> dict[str, bytes]:
    """Small files that ask for much."""
    repeated = struct.pack(">iiiiii", 21, 2**31 - 1, 13, 1, 1, 0)
    counted = expanded(b"compact_intseq", struct.pack(">iiddd", 14, 3, 3e7, 1, 1))
    spelt = expanded(b"deferred_string", struct.pack(">i", 2) + counted + struct.pack(">iii", 13, 1, 0))
    return {
        "code of 2^31 - 1 parts": an_object(repeated),
        "a sequence of 30 million texts": an_object(spelt),
        "a packed gigabyte": gzip.compress(an_object(struct.pack(">ii", 14, 2**27) + bytes(2**30)), 1),
    }


def an_object(value: bytes) -> bytes:
    head = b"RDX3\nX\n" + struct.pack(">iiii", 3, 0, 0, 5) + b"UTF-8"
    return head + struct.pack(">i", 0x402) + symbol(b"v") + value + struct.pack(">i", 254)


def symbol(name: bytes) -> bytes:
    return struct.pack(">iii", 1, 0x40009, len(name)) + name


def expanded(kind: bytes, state: bytes) -> bytes:
    """An object that R keeps in few bytes and readers expand."""
    pair, nil = struct.pack(">i", 2), struct.pack(">i", 254)
    about = pair + symbol(kind) + pair + symbol(b"base") + pair + struct.pack(">iii", 13, 1, 13) + nil
    return struct.pack(">i", 238) + about + state + nil


class Endless(BaseHTTPRequestHandler):
    """Sends far more than is expected of a file of one chunk."""

    def do_GET(self) -> None:
        self.send_response(200)
        self.end_headers()
        with suppress(ConnectionError):
            for _ in range(N_CHUNKS):
                self.wfile.write(CHUNK)

    def log_message(self, *_: Any) -> None:
        """Say nothing."""


def compare_fetchers(folder: Path) -> None:
    """How much of what never ends each takes."""
    import pooch

    pooch.get_logger().setLevel(logging.ERROR)
    server = ThreadingHTTPServer(("127.0.0.1", 0), Endless)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    url = f"http://127.0.0.1:{server.server_port}/file"
    digest = hashlib.sha256(CHUNK).hexdigest()
    fetchers: dict[str, Callable[[], object]] = {
        "ours": lambda: fetch_file(url, folder / "ours" / "file", size=len(CHUNK), sha256=digest),
        "pooch": lambda: pooch.retrieve(url, digest, "file", folder / "pooch"),
    }
    for name, fetch in fetchers.items():
        written = watch_size(folder / name, fetch)
        print(f"{name}: of {N_CHUNKS} MB where 1 is expected, {written / len(CHUNK):.0f} MB are written")
    server.shutdown()


def watch_size(folder: Path, fetch: Callable[[], object]) -> int:
    """The most bytes that were in a folder while something was fetched into it and refused."""
    most, ended = 0, threading.Event()

    def run() -> None:
        with suppress(Exception):
            fetch()
        ended.set()

    threading.Thread(target=run).start()
    while not ended.wait(0.001):
        with suppress(OSError):
            most = max(most, sum(path.stat().st_size for path in folder.iterdir()))
    return most


if __name__ == "__main__":
    main()
