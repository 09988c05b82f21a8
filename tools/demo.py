"""`make demo`: fraudulent addresses in a live stream of web-server logs, and the books that show that no line was lost.

A broker of our own, a feed of access-log lines, the job `penstock.pipelines.jobs.ip_fraud`, and at the end a look at
all that it wrote. Ends with status 1 when a line is missing anywhere, or there twice.
"""

from __future__ import annotations

import argparse
import shutil
import signal
import sys
from dataclasses import replace
from pathlib import Path

import pyspark
from rich.console import Console

from demo_books import QUIET, Places
from demo_report import print_books, print_next_steps, write_spark_defaults
from demo_run import Demo, Traffic
from penstock import Broker
from penstock.pipelines import Pipeline
from penstock.pipelines.errors import PipelineError
from penstock.pipelines.jobs.ip_fraud import default_ranges, ip_fraud
from penstock.pipelines.progress.waiting import waiting
from penstock.pipelines.running.runner import groups_of
from penstock.pipelines.running.session import open_session, session_settings
from penstock.pipelines.steps.address_ranges import AddressRanges

_MARK = ".penstock-demo"


def main() -> int:
    directory, ranges, traffic = parse_arguments(sys.argv[1:])
    console = Console()
    try:
        return show(console, directory, ranges, traffic)
    except PipelineError as error:
        console.print(f"[bold red]error:[/] {error.message}", error.hint, soft_wrap=True)
        return 1


def parse_arguments(arguments: list[str]) -> tuple[Path, Path | None, Traffic]:
    parser = argparse.ArgumentParser(prog="demo", description="Fraudulent addresses in a live stream of access logs.")
    parser.add_argument("--duration", type=float, default=60.0, help="seconds of traffic; 0: until interrupted")
    parser.add_argument("--rate", type=int, default=2000, help="lines a second; 0: as many as possible")
    parser.add_argument("--seed", type=int, default=1, help="the same seed makes the same lines")
    parser.add_argument("--directory", type=Path, default=Path("demo-data"), help="emptied at the start")
    parser.add_argument("--ranges", type=Path, help="what is fraud: a file of first octets or CIDR blocks, one a line")
    given = parser.parse_args(arguments)
    if given.duration < 0 or given.rate < 0:
        parser.error("--duration and --rate are 0 or more")
    return given.directory.resolve(), given.ranges, Traffic(given.duration, given.rate, given.seed)


def show(console: Console, directory: Path, ranges: Path | None, traffic: Traffic) -> int:
    prepare_directory(directory)
    if ranges is None:
        ranges = directory / "ranges.txt"
        default_ranges(ranges)
    places = places_in(directory)
    with Broker(data_dir=directory / "broker") as broker:
        console.print(f"broker at {broker.bootstrap_servers}", highlight=False)
        pipeline = make_pipeline(directory, ranges, broker.bootstrap_servers, places)
        write_spark_defaults(directory / "conf", session_settings(pipeline, None))
        with waiting(console, "starting Spark", f"Spark {pyspark.__version__} is up"):
            spark = open_session(pipeline)
        try:
            demo = Demo(spark, pipeline, places, AddressRanges.from_file(ranges).blocks, traffic)
            signal.signal(signal.SIGTERM, lambda *_: demo.interrupt())
            signal.signal(signal.SIGINT, lambda *_: demo.interrupt())
            entries = demo.play(console)
        finally:
            spark.stop()
    print_books(console, entries)
    print_next_steps(console, directory, places, list(groups_of(pipeline).values()), Path(sys.executable).parent)
    return 0 if all(entry.is_right for entry in entries) else 1


def prepare_directory(directory: Path) -> None:
    """An empty one; only what an earlier demo has made is deleted."""
    if directory.exists() and any(directory.iterdir()) and not (directory / _MARK).exists():
        raise SystemExit(f"{directory} is not empty and not from a demo: name another with --directory")
    shutil.rmtree(directory, ignore_errors=True)
    directory.mkdir(parents=True)
    (directory / _MARK).touch()


def places_in(directory: Path) -> Places:
    return Places("iprecord", "fraudip", "address-counts", "iprecord.dead", "fraud_requests", str(directory / "lake"))


def make_pipeline(directory: Path, ranges: Path, bootstrap_servers: str, places: Places) -> Pipeline:
    made = ip_fraud(
        source=places.source,
        fraud=places.fraud,
        counts=places.counts,
        dead_letters=places.dead_letters,
        table=places.table,
        lake=places.lake,
        ranges=str(ranges),
    )
    hive = {
        "spark.sql.warehouse.dir": str(directory / "warehouse"),
        "spark.hadoop.javax.jdo.option.ConnectionURL": f"jdbc:derby:{directory}/metastore;create=true",
        "spark.driver.extraJavaOptions": f"-Dderby.stream.error.file={directory}/derby.log",
    }
    settings = replace(
        made.settings,
        bootstrap_servers=bootstrap_servers,
        checkpoint=str(directory / "checkpoint"),
        kafka={name: str(value) for name, value in QUIET.items()},
        spark={**made.settings.spark, **hive},
    )
    return replace(made, settings=settings)


if __name__ == "__main__":
    sys.exit(main())
