"""Fetching from a server on this machine: whole files with the right bytes, and clear words otherwise."""

from __future__ import annotations

import hashlib
import os
import socket
import threading
from contextlib import suppress
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from scdp.errors import DataNotFoundError, InputError
from scdp.paper import files

SIZE = 150_000
CONTENT = os.urandom(SIZE)
DIGEST = hashlib.sha256(CONTENT).hexdigest()


class Handler(BaseHTTPRequestHandler):
    def do_GET(self):
        getattr(self, f"_{self.path[1:]}", self._missing)()

    def _start(self, code, **headers):
        self.send_response(code)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()

    def _good(self):
        self._start(200, Content_Length=str(len(CONTENT)))
        self.wfile.write(CONTENT)

    def _short(self):
        self._start(200, Content_Length=str(len(CONTENT)))
        self.wfile.write(CONTENT[:70_000])

    def _away(self):
        self._start(302, Location="http://example.org/file", Content_Length="0")

    def _slow(self):
        self._start(200, Content_Length=str(len(CONTENT)))
        self.server.stopped.wait(5)

    def _endless(self):
        self._start(200)
        with suppress(ConnectionError):
            for _ in range(1000):
                self.wfile.write(CONTENT)
                self.server.sent += SIZE

    def _missing(self):
        self._start(404, Content_Length="0")

    def log_message(self, *_):
        pass


@pytest.fixture
def running_server(monkeypatch):
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    running = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    running.stopped, running.sent = threading.Event(), 0
    thread = threading.Thread(target=running.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    running.address = f"http://127.0.0.1:{running.server_port}"
    yield running
    running.stopped.set()
    running.shutdown()
    thread.join()
    running.server_close()


@pytest.fixture
def server(running_server):
    return running_server.address


@pytest.fixture
def target(tmp_path):
    return tmp_path / "cache" / "set" / "file.bin"


def get(url, target, *, size=SIZE, sha256=DIGEST, timeout=5.0):
    files.fetch_file(url, target, size=size, sha256=sha256, timeout=timeout)


def nothing_left(target) -> bool:
    return list(target.parent.iterdir()) == []


def test_a_good_file_arrives_whole(server, target):
    get(f"{server}/good", target)
    assert target.read_bytes() == CONTENT
    assert [path.name for path in target.parent.iterdir()] == ["file.bin"]
    assert files.digest_of(target) == DIGEST


@pytest.mark.parametrize(
    ("page", "options", "message"),
    [
        ("good", {"sha256": "0" * 64}, "not the pinned 000000000000"),
        ("good", {"size": 100_000}, "more bytes where 100000"),
        ("good", {"size": 200_000}, "150000 bytes where 200000"),
        ("short", {}, "70000 bytes where 150000|stopped answering"),
        ("none", {}, "answered 404"),
        ("away", {}, "example.org/file is not an https address"),
        ("slow", {"timeout": 0.2}, "stopped answering|could not be reached"),
    ],
)
def test_anything_else_leaves_no_file(server, target, page, options, message):
    with pytest.raises(InputError, match=message):
        get(f"{server}/{page}", target, **options)
    assert nothing_left(target)


def test_a_server_without_end_cannot_fill_the_disk(running_server, target):
    with pytest.raises(InputError, match="more bytes"):
        get(f"{running_server.address}/endless", target)
    assert running_server.sent < 100 * SIZE
    assert nothing_left(target)


def test_a_failed_fetch_keeps_the_file_that_was_there(server, target):
    target.parent.mkdir(parents=True)
    target.write_bytes(b"before")
    with pytest.raises(InputError):
        get(f"{server}/short", target)
    assert target.read_bytes() == b"before"


def test_a_closed_port_is_no_network(target):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with pytest.raises(InputError, match="could not be reached"):
        get(f"http://127.0.0.1:{port}/good", target)
    assert nothing_left(target)


@pytest.mark.parametrize("url", ["http://example.org/x", "ftp://127.0.0.1/x", "file:///etc/hostname", "x"])
def test_only_https_is_spoken_with_strangers(url, target):
    with pytest.raises(InputError, match="not an https address"):
        get(url, target)
    assert not target.parent.exists()


def test_a_cache_that_cannot_be_written_is_named(server, target, monkeypatch):
    target.parent.parent.mkdir()
    target.parent.touch()
    with pytest.raises(InputError, match="set cannot be written"):
        get(f"{server}/good", target)
    target.parent.unlink()

    def refuse(**_):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(files.tempfile, "mkstemp", refuse)
    with pytest.raises(InputError, match="Permission denied"):
        get(f"{server}/good", target)
    assert nothing_left(target)


def test_a_full_disk_leaves_no_file(server, target, monkeypatch):
    def full(_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(files.os, "fsync", full)
    with pytest.raises(InputError, match="No space left"):
        get(f"{server}/good", target)
    assert nothing_left(target)


@pytest.fixture
def one_set(server, monkeypatch, tmp_path):
    """A set of one file that the server has, with data folder and cache of its own."""
    monkeypatch.setenv("SCDP_DATA", str(tmp_path / "data"))
    monkeypatch.setenv("SCDP_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("SCDP_OFFLINE", raising=False)
    file = files.File("raw/file.bin", len(CONTENT), DIGEST, f"{server}/good")
    source = replace(files.find_source("febrl3"), name="small", files=(file,))
    monkeypatch.setattr(files, "_SOURCES", (source,))
    return source


def test_lookup_prefers_the_data_folder_then_the_cache_then_fetches(one_set, tmp_path):
    in_cache = tmp_path / "cache/scdp/data/small/raw/file.bin"
    assert files.find(one_set, one_set.files[0]) is None
    assert files.require("small", "raw/file.bin") == in_cache
    assert files.check(one_set, one_set.files[0]) == ""
    in_data = tmp_path / "data/small/raw/file.bin"
    in_data.parent.mkdir(parents=True)
    in_data.write_bytes(b"mine")
    assert files.require("small", "raw/file.bin") == in_data
    assert "digest differs" in files.check(one_set, one_set.files[0])


def test_offline_forbids_fetching(one_set, monkeypatch, tmp_path):
    monkeypatch.setenv("SCDP_OFFLINE", "1")
    with pytest.raises(DataNotFoundError, match=r"small/raw/file\.bin is not in .* SCDP_OFFLINE forbids"):
        files.require("small", "raw/file.bin")
    assert not (tmp_path / "cache").exists()


def test_a_failed_fetch_says_where_it_looked_and_why(one_set, tmp_path):
    broken = replace(one_set.files[0], sha256="0" * 64)
    with pytest.raises(DataNotFoundError) as caught:
        files.fetch(one_set, broken)
    assert str(tmp_path / "data") in str(caught.value)
    assert "pinned" in str(caught.value)


def test_cache_folder_follows_the_environment(monkeypatch, tmp_path):
    monkeypatch.setenv("SCDP_CACHE", str(tmp_path / "a"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "b"))
    assert files.cache_folder() == tmp_path / "a" / "scdp" / "data"
    monkeypatch.delenv("SCDP_CACHE")
    assert files.cache_folder() == tmp_path / "b" / "scdp" / "data"
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert files.cache_folder() == tmp_path / ".cache" / "scdp" / "data"


def test_every_source_is_pinned_and_speaks_https():
    for source in map(files.find_source, files.NAMES):
        assert source.files
        for file in source.files:
            assert len(file.sha256) == 64
            assert file.size > 0
            assert file.url is None or file.url.startswith("https://")
    with pytest.raises(InputError, match="no data set 'nothing'"):
        files.find_source("nothing")


def test_files_on_this_machine_are_the_published_ones(data_or_skip, monkeypatch):
    monkeypatch.setenv("SCDP_OFFLINE", "1")
    for name in files.NAMES:
        source = files.find_source(name)
        for file in source.files:
            with data_or_skip():
                place = files.require(name, file.path)
            assert place.stat().st_size == file.size
            assert files.check(source, file) == ""
