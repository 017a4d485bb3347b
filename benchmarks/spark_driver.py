"""The peak memory of Spark's driver, by the number of draws.

python -m benchmarks.spark_driver [--size 20000] [--draws 20 80 320] [--master local-cluster[2,1,1024]] [--kill]
Each number of draws is a run of its own: made-up people are clustered on Spark, with point estimate, probabilities and
expected metrics. Prints the peak of the driver's Python and Java processes, a checksum of the clusters, and whether
they are those of one machine; where they are not, the exit code is 1. With `--kill` an executor is killed when the
pairs have been compared.
"""

from __future__ import annotations

import argparse
import os
import re
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Any
from zlib import crc32

import numpy as np

from benchmarks.process_tree import kilobytes
from scdp import EntityResolver, Spec, compare
from scdp.datasets import make_records

FIELDS = (
    compare.edit("surname"),
    compare.jaro_winkler(["first_name", "surname"]),
    compare.absolute("birth_date", of="year", scale=10.0),
    compare.edit("postcode"),
)
SETTINGS = {
    "spark.driver.memory": "1g",
    "spark.sql.shuffle.partitions": "4",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--size", type=int, default=20_000)
    parser.add_argument("--draws", type=int, nargs="+", default=[20, 80, 320])
    parser.add_argument("--master", default="local-cluster[2,1,1024]")
    parser.add_argument("--kill", action="store_true", help="kill an executor half way")
    parser.add_argument("--only", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.only is not None:
        return int(not measure(options.size, options.only, options.master, options.kill))
    for n_draws in options.draws:
        # A process of its own: the peak of one run would hide that of the next.
        arguments = ["--size", str(options.size), "--master", options.master, "--only", str(n_draws)]
        arguments += ["--kill"] * options.kill
        if code := subprocess.run([sys.executable, "-m", "benchmarks.spark_driver", *arguments]).returncode:
            return code
    return 0


def measure(size: int, n_draws: int, master: str, kill: bool) -> bool:
    """Cluster people on Spark and print what the driver took; whether the clusters are those of one machine."""
    from scdp.engines import LocalEngine, SparkEngine
    from scdp.engines.spark_tables import spark_session

    taught = make_records(600, kind="people", seed=1)
    # As many draws as are asked for, however many records there are.
    EntityResolver.count_draws = lambda self, n_items: n_draws  # type: ignore[method-assign]
    model = EntityResolver(spec=Spec("entity", FIELDS), boosted=False, n_draws=n_draws, n_chains=4, random_state=0)
    model.fit(taught.data, np.unique(taught.clusters, return_inverse=True)[1])
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    spark = spark_session(master, **SETTINGS)
    spark.sparkContext.setLogLevel("ERROR")
    model.set_params(engine=SparkEngine(spark))
    if kill:
        kill_half_way(spark)
    before, people, start = peak_of("self"), make_records(size, kind="people").data, time.perf_counter()
    labels, posterior = model.predict_with_posterior(people)
    seconds = time.perf_counter() - start
    drawn = peak_of("self")
    posterior.membership_probability(labels)
    posterior.expected_metrics(labels)
    java = spark.sparkContext._gateway.proc.pid
    met = len(getattr(posterior.stored, "items", labels))
    taken = peak_of("self"), peak_of(java)
    same = np.array_equal(labels, model.set_params(engine=LocalEngine()).predict(people))
    print(
        f"{posterior.n_chains * posterior.n_draws} draws of {size:,} records, of which {met:,} meet another: Python "
        f"{before} MB before, {drawn} MB with the point estimate, {taken[0]} MB at last; "
        f"Java {taken[1]} MB; {seconds:.0f} s; clusters {crc32(np.asarray(labels, np.int64).tobytes()):08x}, "
        f"{'those' if same else 'NOT those'} of one machine",
        flush=True,
    )
    spark.stop()
    return same


def kill_half_way(spark: Any) -> None:
    """Kill one of the executors as soon as the pairs have been compared."""
    from scdp.engines import spark as module

    go_on = module.break_up
    port = spark.sparkContext.getConf().get("spark.driver.port")
    driver = re.compile(rb"CoarseGrainedScheduler@[^\0]*:%s\0" % port.encode())

    def after_a_loss(rows: Any, pairs: Any) -> Any:
        for folder in Path("/proc").glob("[0-9]*"):
            with suppress(OSError):
                command = (folder / "cmdline").read_bytes()
                if b"CoarseGrainedExecutorBackend" in command and driver.search(command):
                    os.kill(int(folder.name), signal.SIGKILL)
                    print(f"executor {folder.name} is killed", flush=True)
                    return go_on(rows, pairs)
        raise SystemExit("--kill: no executor of this session was found on this machine")

    module.break_up = after_a_loss  # type: ignore[assignment]


def peak_of(process: int | str) -> int:
    """The most memory that a process has had, in megabytes."""
    return (kilobytes(Path("/proc") / str(process) / "status", "VmHWM:") or 0) // 1_000_000


if __name__ == "__main__":
    sys.exit(main())
