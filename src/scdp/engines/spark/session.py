"""The Spark session: Java and PySpark are looked for and named if missing; errors of workers become sentences."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from scdp.errors import InputError, MissingExtraError

OLDEST_JAVA = 17
_OWN_ERROR = re.compile(r"scdp\.\S*Error: (.+)")
# What a worker must find as the driver does: the package, and where compiled kernels are kept.
_PASSED_ON = ("PYTHONPATH", "SCDP_CACHE", "XDG_CACHE_HOME")


def spark_session(master: str | None = None, **settings: str) -> Any:
    """The active session, or a new one; without `master` Spark's own configuration decides where it runs."""
    require_spark()
    from pyspark.sql import SparkSession

    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    with _not_about_pandas():
        return _builder(SparkSession, master, settings).getOrCreate()


def _builder(session: Any, master: str | None, settings: Mapping[str, str]) -> Any:
    builder = session.builder.appName("scdp")
    if master is not None:
        builder = builder.master(master)
    for name in _PASSED_ON:
        if name in os.environ:
            builder = builder.config(f"spark.executorEnv.{name}", os.environ[name])
    for name, value in settings.items():
        builder = builder.config(name, value)
    return builder


def require_spark() -> None:
    """Refuse to go on without PySpark or a Java that it can use."""
    try:
        import pyspark  # noqa: F401
    except ImportError as error:
        raise MissingExtraError("pyspark", "spark", "the engine spark") from error
    version = java_version()
    if version is None:
        raise InputError(
            f"the engine spark: there is no Java; install {OLDEST_JAVA} or later, or set JAVA_HOME to where it is"
        )
    if version < OLDEST_JAVA:
        raise InputError(f"the engine spark: Java is version {version}; install {OLDEST_JAVA} or later")


def java_version() -> int | None:
    """The major version of the Java that Spark would start, None if there is none."""
    home = os.environ.get("JAVA_HOME")
    java = os.path.join(home, "bin", "java") if home else shutil.which("java")
    if java is None:
        return None
    try:
        told = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=60).stderr
    except (OSError, subprocess.SubprocessError):
        return None
    found = re.search(r'version "(?:1\.)?(\d+)', told)
    return int(found[1]) if found else None


@contextmanager
def worker_errors() -> Iterator[None]:
    """An error that scdp raised on purpose in a worker is raised here as the one sentence it was."""
    from pyspark.errors import PythonException

    try:
        yield
    except PythonException as error:
        found = _OWN_ERROR.findall(str(error))
        if not found:
            raise
        raise InputError(found[-1]) from error


def mapped(frame: Any, function: Callable[[Iterable[Any]], Iterator[Any]], schema: str) -> Any:
    """The frame that a function makes of the Arrow batches of each partition. Not computed yet."""
    with _not_about_pandas():
        return frame.mapInArrow(function, schema)


@contextmanager
def _not_about_pandas() -> Iterator[None]:
    # PySpark asks for pandas and warns of version 3, though only Arrow batches are exchanged here.
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "PySpark does not yet fully support pandas", FutureWarning)
        yield


def saved(frame: Any) -> Any:
    """The frame computed once and cut off from how it was made: plans of loops would grow without end.

    Kept by the executors, or in the checkpoint folder where one is set: only that outlives a lost executor.
    """
    context = frame.sparkSession.sparkContext
    return frame.checkpoint() if context.getCheckpointDir() else frame.localCheckpoint()
