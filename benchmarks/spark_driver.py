"""The peak memory of Spark's driver, by the number of draws.

python -m benchmarks.spark_driver [--size 20000] [--draws 20 80 320] [--master local-cluster[2,1,1024]]
Each number of draws is a run of its own: made-up people are clustered on Spark, with point estimate, probabilities and
expected metrics. Prints the peak of the driver's Python and Java processes, and a checksum of the clusters.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from pathlib import Path
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
    parser.add_argument("--only", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.only is not None:
        measure(options.size, options.only, options.master)
        return 0
    for n_draws in options.draws:
        # A process of its own: the peak of one run would hide that of the next.
        arguments = ["--size", str(options.size), "--master", options.master, "--only", str(n_draws)]
        subprocess.run([sys.executable, "-m", "benchmarks.spark_driver", *arguments], check=True)
    return 0


def measure(size: int, n_draws: int, master: str) -> None:
    """Cluster people on Spark and print what the driver took."""
    from scdp.engines import SparkEngine
    from scdp.engines.spark_tables import spark_session

    taught = make_records(600, kind="people", seed=1)
    model = EntityResolver(spec=Spec("entity", FIELDS), boosted=False, n_draws=n_draws, n_chains=4, random_state=0)
    model.fit(taught.data, np.unique(taught.clusters, return_inverse=True)[1])
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    spark = spark_session(master, **SETTINGS)
    spark.sparkContext.setLogLevel("ERROR")
    model.set_params(engine=SparkEngine(spark))
    before = peak_of("self")
    labels, posterior = model.predict_with_posterior(make_records(size, kind="people").data)
    drawn = peak_of("self")
    posterior.membership_probability(labels)
    posterior.expected_metrics(labels)
    java = spark.sparkContext._gateway.proc.pid
    met = len(getattr(posterior.stored, "items", labels))
    print(
        f"{posterior.n_chains * posterior.n_draws} draws of {size:,} records, of which {met:,} meet another: Python "
        f"{before} MB before, {drawn} MB with the point estimate, {peak_of('self')} MB at last; "
        f"Java {peak_of(java)} MB; clusters {crc32(np.asarray(labels, np.int64).tobytes()):08x}",
        flush=True,
    )
    spark.stop()


def peak_of(process: int | str) -> int:
    """The most memory that a process has had, in megabytes."""
    return (kilobytes(Path("/proc") / str(process) / "status", "VmHWM:") or 0) // 1_000_000


if __name__ == "__main__":
    sys.exit(main())
