"""Shared test rules: a data set that is not there is a skip, or a failure where SCDP_REQUIRE_DATA is set.

Likewise Spark and its Java, with SCDP_REQUIRE_SPARK.
"""

from __future__ import annotations

import os
import shutil

# Test processes run side by side, one a core: threads of libraries on top of that would wait for each other.
os.environ.setdefault("OMP_NUM_THREADS", "1")
# Commands that tests start would compile every module anew.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from scdp.errors import DataNotFoundError, ScdpError


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Tests of signals, modes, links and pipes are for systems that have them."""
    if os.name != "posix":
        for item in items:
            if item.get_closest_marker("posix"):
                item.add_marker(pytest.mark.skip(reason="needs a POSIX system"))


@contextmanager
def _data_or_skip() -> Iterator[None]:
    try:
        yield
    except DataNotFoundError as error:
        if os.environ.get("SCDP_REQUIRE_DATA"):
            raise
        pytest.skip(f"data set not on this machine: {error}")


@pytest.fixture
def data_or_skip():
    """Use as `with data_or_skip(): load_...()`; never fetches from the network."""
    return _data_or_skip


# Two executors as processes of their own, so that everything sent to a worker is really sent.
SPARK = "local-cluster[2,1,1024]"
SPARK_SETTINGS = {
    "spark.driver.memory": "1g",
    # One for each executor: a task of so few rows is mostly its own start.
    "spark.sql.shuffle.partitions": "2",
    # No task waits for the executor that has its rows, nor long for one that is gone.
    "spark.locality.wait": "0s",
    "spark.shuffle.io.retryWait": "200ms",
    # Compiling each small query takes longer than running it; Spark gives the same rows either way.
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
}


@pytest.fixture(scope="session")
def spark_or_skip(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """A Spark session. Only one test asks for it, because every process of a test run would start its own."""
    from scdp.engines.spark_tables import require_spark, spark_session

    try:
        require_spark()
    except ScdpError as error:
        if os.environ.get("SCDP_REQUIRE_SPARK"):
            raise
        pytest.skip(f"no Spark on this machine: {error}")
    with pytest.MonkeyPatch.context() as patch:
        _set_spark_environment(patch, tmp_path_factory.mktemp("spark"))
        spark = spark_session(SPARK, **SPARK_SETTINGS)
        spark.sparkContext.setLogLevel("ERROR")
        own = spark_folder() / "work" / spark.sparkContext.applicationId
        yield spark
        spark.stop()
        # Executors of a local cluster leave their logs in Spark's own folder, whatever SPARK_WORKER_DIR says.
        shutil.rmtree(own, ignore_errors=True)


def _set_spark_environment(patch: pytest.MonkeyPatch, folder: Path) -> None:
    # Much of a short session is Java's compiler at work.
    patch.setenv("JDK_JAVA_OPTIONS", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")
    patch.setenv("SPARK_LOCAL_IP", "127.0.0.1")
    patch.setenv("SPARK_LOCAL_DIRS", str(folder))


def spark_folder() -> Path:
    import pyspark

    return Path(os.environ.get("SPARK_HOME") or pyspark.__path__[0])


@pytest.fixture
def pyplot():
    """Pictures that no screen shows; closed when the test is over."""
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("agg")
    from matplotlib import pyplot

    yield pyplot
    pyplot.close("all")
