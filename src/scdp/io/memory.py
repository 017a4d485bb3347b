"""Memory: what a run would need enters, by name; one that does not fit into what is free is refused in a sentence."""

from __future__ import annotations

import ctypes
import gc
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path, PurePosixPath
from typing import NamedTuple

from scdp.errors import InputError


def give_back_memory() -> None:
    """Return what is free to the system, after a stage that has made and dropped many small things.

    Without it 200,000 records hold 120 MB more while they are sampled. It takes milliseconds, and does
    nothing where the C library has no way to do it.
    """
    trim = _find_trim()
    if trim is not None:
        trim(0)


@contextmanager
def collection_paused() -> Iterator[None]:
    """Do not look for unused cycles of objects: while millions of values are made that all stay, there are none.

    Looking for them takes a sixth of the time in which values are cleaned and parsed.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


@cache
def _find_trim() -> Callable[[int], int] | None:
    """The function of glibc, if that is the C library here."""
    try:
        trim: Callable[[int], int] = ctypes.CDLL(None).malloc_trim
    except (AttributeError, OSError, TypeError):
        return None
    return trim


# Where version 2 and version 1 of control groups say their limit, their use, and under which name what could be freed.
GROUPS = (
    ("", "memory.max", "memory.current", "inactive_file"),
    ("memory", "memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"),
)
CONTROL = Path("/sys/fs/cgroup")
# Of what `ulimit -v` counts, threads and libraries take so much that is never filled; without it they end the process.
NEVER_FILLED = 256 << 20
# What libraries take of it in the commands that load them all, and for the threads of each core. With less, some of
# them hang, and others end the process.
LIBRARIES, FOR_A_CORE = 1400 << 20, 120 << 20


class Need(NamedTuple):
    """Bytes for something that people know by this name, and what to change for fewer."""

    what: str
    n_bytes: int
    remedy: str


def require(needs: Sequence[Need]) -> None:
    """Refuse what needs more memory than is free; where the system does not say how much that is, nothing is."""
    free, total = free_bytes(), sum(need.n_bytes for need in needs)
    if free is None or total <= free:
        return
    largest = max(needs, key=lambda need: need.n_bytes)
    limited = "allow the process more (ulimit -v), or " if free == free_of_limit() else ""
    raise InputError(
        f"this would need about {size(total)} of memory, {size(largest.n_bytes)} of it for {largest.what}, "
        f"and {size(free)} are free; {limited}{largest.remedy}"
    )


def size(n_bytes: int) -> str:
    """Bytes in words: two digits are all that an estimate has."""
    for unit, name in ((10**12, "TB"), (10**9, "GB"), (10**6, "MB")):
        if n_bytes >= unit:
            amount = n_bytes / unit
            return f"{amount:.1f} {name}" if amount < 10 else f"{amount:,.0f} {name}"
    return f"{n_bytes / 1000:.0f} kB"


def free_bytes() -> int | None:
    """What this process can still take: of the machine, of its container and of its own limit; None if not known."""
    said = (free_of_machine(), free_of_container(), free_of_limit())
    return min((amount for amount in said if amount is not None), default=None)


def free_of_machine() -> int | None:
    """What Linux says is available; elsewhere all memory there is."""
    with suppress(OSError, ValueError, StopIteration):
        lines = Path("/proc/meminfo").read_text(encoding="ascii").splitlines()
        return 1024 * int(next(line.split()[1] for line in lines if line.startswith("MemAvailable:")))
    with suppress(OSError, ValueError, AttributeError):
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return None


def free_of_container() -> int | None:
    """What the control groups of this process leave it, the tightest of them."""
    found = []
    for controller, place in _own_groups():
        for group in (place, *place.parents):
            for folder, limit, used, idle in GROUPS:
                if folder == controller:
                    free = _left(CONTROL / folder / str(group).lstrip("/"), limit, used, idle)
                    found += [] if free is None else [free]
    return min(found, default=None)


def _own_groups() -> list[tuple[str, PurePosixPath]]:
    """The controller ("" for version 2) and the path of each control group that could limit memory."""
    with suppress(OSError, ValueError):
        lines = Path("/proc/self/cgroup").read_text(encoding="utf-8").splitlines()
        parts = [line.split(":", 2) for line in lines]
        return [(name, PurePosixPath(path)) for _, name, path in parts if name in ("", "memory")]
    return []


def _left(group: Path, limit: str, used: str, idle: str) -> int | None:
    with suppress(OSError, ValueError):
        most = int((group / limit).read_text(encoding="ascii"))
        taken = int((group / used).read_text(encoding="ascii"))
        stat = dict(line.split() for line in (group / "memory.stat").read_text(encoding="ascii").splitlines())
        return max(0, most - taken + int(stat.get(idle, 0)))
    return None


def free_of_limit() -> int | None:
    """What `ulimit -v` leaves."""
    with suppress(OSError, ValueError):
        most = limit_of_process()
        if most is None:
            return None
        pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0])
        return max(0, most - pages * os.sysconf("SC_PAGE_SIZE") - NEVER_FILLED)
    return None


def limit_of_process() -> int | None:
    """What `ulimit -v` says; None where there is no limit."""
    with suppress(ImportError, OSError, ValueError):
        import resource

        most = resource.getrlimit(resource.RLIMIT_AS)[0]
        return None if most == resource.RLIM_INFINITY else most
    return None


def require_libraries() -> None:
    """Refuse a limit of the process that is too low for the libraries, before they are loaded."""
    most = limit_of_process()
    if most is not None and most < bytes_of_libraries():
        raise InputError(
            f"the process may take {size(most)} (ulimit -v), and the libraries of scdp take about "
            f"{size(bytes_of_libraries())} on {count_cores()} cores; allow it more, or give it fewer cores (taskset)"
        )


def bytes_of_libraries() -> int:
    """What the libraries take of `ulimit -v` on this machine."""
    return LIBRARIES + FOR_A_CORE * count_cores()


def count_cores() -> int:
    """The cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
