"""What a run takes of the machine: threads, memory, and time, of which bars say how much is left.

One map over threads; bars that people see; and what a run would need of memory, by name: one that does not fit into
what is free is refused in a sentence.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from importlib import import_module
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, Self, TypeVar

if TYPE_CHECKING:
    from rich.progress import Progress as RichProgress
    from rich.progress import ProgressColumn, TaskID
import ctypes
import gc
from collections.abc import Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path, PurePosixPath
from typing import NamedTuple

from scdp.errors import InputError

Item = TypeVar("Item")
Result = TypeVar("Result")
# Is told how much is done, and of how much.
Progress = Callable[[int, int], None]

# A bar is shown for what takes longer than this.
PATIENCE_SECONDS = 2.0
REFRESH_SECONDS = 0.2
# In a pipe, a line is said so often.
LINE_SECONDS = 10.0
# So often it is seen to that something is said.
TICK_SECONDS = 0.5


def count_workers(n_jobs: int | None) -> int:
    """The number of threads that is meant: None is one, -1 is one a core."""
    if n_jobs is None:
        return 1
    return n_jobs if n_jobs > 0 else os.cpu_count() or 1


def map_in_threads(
    work: Callable[[Item], Result],
    items: Iterable[Item],
    n_threads: int,
    stop: threading.Event | None = None,
    n_ahead: int = 0,
) -> Iterator[Result]:
    """The results in order; only a few items are under way at a time.

    Up to `n_ahead` more are done while the first of them takes longer. `stop` is set as soon as anything goes wrong,
    before the work under way is waited for.
    """
    with ThreadPoolExecutor(max_workers=n_threads) as pool:
        waiting: deque[Future[Result]] = deque()
        try:
            for item in items:
                waiting.append(pool.submit(work, item))
                if len(waiting) > n_threads + n_ahead:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
        except BaseException:
            # What is queued is never begun; what is under way is waited for.
            pool.shutdown(wait=False, cancel_futures=True)
            if stop is not None:
                stop.set()
            raise


def one_thread_a_library(module: str) -> AbstractContextManager[Any]:
    """Keeps libraries from threads of their own: on small arrays, or a busy machine, these mostly wait for each other.

    A limit holds for libraries that are loaded already, so the module that needs them is imported first.
    """
    import_module(module)
    from threadpoolctl import threadpool_limits

    return threadpool_limits(1)


class StepProgress:
    """Tells how many of a known number of steps are done."""

    def __init__(self, progress: Progress | None, total: int) -> None:
        self.progress, self.total, self.done = progress, total, 0

    def step(self) -> None:
        """One more step is done."""
        self.done += 1
        if self.progress is not None:
            self.progress(min(self.done, self.total), self.total)


class Stage:
    """What is being done now, since when, and how much of it is done (of 0: nobody counts)."""

    def __init__(self, what: str) -> None:
        self.what, self.start = what, time.monotonic()
        self.done, self.total = 0, 0


class WorkBar:
    """How far one piece of work is: a bar with the time left in a terminal, a line every ten seconds elsewhere.

    Nothing is shown before two seconds have passed. There is one bar at a time: work inside other work is its stage.
    """

    _lock: ClassVar[threading.RLock] = threading.RLock()
    _shown: ClassVar[WorkBar | None] = None

    def __init__(self, what: str) -> None:
        self._bars: RichProgress | None = None
        self._drawn: Stage | None = None
        self._start = self._said = time.monotonic()
        self._stages = [Stage(what)]
        self._inner: AbstractContextManager[None] | None = None
        self._over = threading.Event()

    def __enter__(self) -> Progress:
        with self._lock:
            if WorkBar._shown is not None:
                self._inner = stage(self._stages[0].what)
                self._inner.__enter__()
            else:
                WorkBar._shown = self
                # Who works for long without a word does not keep this thread from speaking.
                threading.Thread(target=self._tell_all_the_while, daemon=True).start()
        return self.advance

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._over.set()
            if self._inner is not None:
                self._inner.__exit__(None, None, None)
            if self._bars is not None:
                self._bars.stop()
            if WorkBar._shown is self:
                WorkBar._shown = None

    def advance(self, done: int, total: int) -> None:
        """Show that so much of the present stage is done; several threads may call it."""
        with self._lock:
            if WorkBar._shown is not None:
                now = WorkBar._shown._stages[-1]
                now.done, now.total = done, total
                WorkBar._shown._tell()

    def _tell_all_the_while(self) -> None:
        while not self._over.wait(TICK_SECONDS):
            with self._lock:
                if not self._over.is_set():
                    self._tell()

    def _tell(self) -> None:
        now, at = self._stages[-1], time.monotonic()
        if at - self._start < PATIENCE_SECONDS:
            return
        if sys.stderr.isatty():
            self._draw(now)
        elif at - self._said >= LINE_SECONDS:
            self._said = at
            say_progress(now.what, now.done, now.total, at - now.start)

    def _draw(self, now: Stage) -> None:
        total = now.total or None
        if self._bars is None:
            from rich.progress import TaskProgressColumn

            self._bars = _start_bars(TaskProgressColumn())
            self._bars.add_task(now.what, total=total)
        elif self._drawn is not now:
            # The time left is that of the stage.
            self._bars.reset(self._bars.tasks[0].id, description=now.what, total=total)
        self._drawn = now
        self._bars.update(self._bars.tasks[0].id, completed=now.done, total=total)


@contextmanager
def stage(what: str) -> Iterator[None]:
    """Name what is done in here, if how far the work is is shown at all."""
    with WorkBar._lock:
        bar, own = WorkBar._shown, Stage(what)
        if bar is not None:
            bar._stages.append(own)
    try:
        yield
    finally:
        with WorkBar._lock:
            if bar is not None:
                bar._stages.remove(own)


# Before so much is done the time left cannot be told: the first steps may have to compile.
FEWEST_DONE = 0.2


def say_progress(what: str, done: int, total: int, seconds: float) -> None:
    """One line on stderr: how much is done, and how long the rest may take; or for how long it has been going on."""
    if not total:
        print(f"scdp: {what}: {seconds:.0f} s so far", file=sys.stderr, flush=True)
        return
    share = done / total
    left = f", about {seconds * (1 - share) / share:.0f} s left" if share >= FEWEST_DONE else ""
    print(f"scdp: {what}: {share:.0%} done{left}", file=sys.stderr, flush=True)


class ChainProgress(Protocol):
    """What a running chain tells."""

    def advance(self, chain: int, sweeps_done: int) -> None: ...


class ChainBars:
    """A bar per chain on stderr, refreshed a few times a second; in a pipe, a line for all every ten seconds."""

    def __init__(self, n_chains: int, n_sweeps: int) -> None:
        self._n_chains, self._n_sweeps = n_chains, n_sweeps
        self._bars: RichProgress | None = None
        self._tasks: list[TaskID] = []
        self._shown, self._done = [0.0] * n_chains, [0] * n_chains
        self._start = self._said = time.monotonic()

    def __enter__(self) -> Self:
        if not sys.stderr.isatty():
            return self
        from rich.progress import MofNCompleteColumn, TextColumn

        self._bars = _start_bars(MofNCompleteColumn(), TextColumn("{task.fields[speed]:>9.0f} sweeps/s"))
        names = [f"chain {chain + 1}" for chain in range(self._n_chains)]
        self._tasks = [self._bars.add_task(name, total=self._n_sweeps, speed=0.0) for name in names]
        return self

    def __exit__(self, *_: object) -> None:
        if self._bars is not None:
            self._bars.stop()

    def advance(self, chain: int, sweeps_done: int) -> None:
        """Show how many sweeps a chain has done."""
        now = time.monotonic()
        self._done[chain] = sweeps_done
        if self._bars is None:
            if now - self._said >= LINE_SECONDS:
                self._said = now
                say_progress("sampling", sum(self._done), self._n_chains * self._n_sweeps, now - self._start)
            return
        if now - self._shown[chain] < REFRESH_SECONDS and sweeps_done < self._n_sweeps:
            return
        self._shown[chain] = now
        task = self._bars.tasks[self._tasks[chain]]
        speed = sweeps_done / task.elapsed if task.elapsed else 0.0
        self._bars.update(self._tasks[chain], completed=sweeps_done, speed=speed)


def _start_bars(*middle: ProgressColumn) -> RichProgress:
    """Bars with a name before and the time left after the given columns."""
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    bars = Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        *middle,
        TimeRemainingColumn(),
        TextColumn("left"),
        console=Console(stderr=True),
    )
    bars.start()
    return bars


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
