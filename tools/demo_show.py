"""What `make demo` shows: the broker, the feed, the job and the books, one after the other."""

from __future__ import annotations

import shutil
import sys
from dataclasses import replace
from pathlib import Path

import pyspark
from rich.console import Console

from demo_books import QUIET, Places
from demo_report import print_books, print_next_steps, write_spark_defaults
from demo_run import Demo, Traffic
from penstock import Broker
from penstock.core.words.failure_text import tell_error
from penstock.pipelines import Pipeline
from penstock.pipelines.errors import PipelineError
from penstock.pipelines.jobs.ip_fraud import default_ranges, ip_fraud
from penstock.pipelines.progress.wait_messages import waiting
from penstock.pipelines.runtime.runner import groups_of
from penstock.pipelines.runtime.spark.session import open_session, session_settings, stop_session
from penstock.pipelines.runtime.spark.signals import Course, run_until_signalled
from penstock.pipelines.steps.address_ranges import AddressRanges

_MARK = ".penstock-demo"
_STOPPING = (
    "no more lines: those that are there are worked off first; a second Ctrl-C or SIGTERM ends everything at once"
)


def run(directory: Path, ranges: Path | None, traffic: Traffic) -> int:
    """The exit code. A signal ends it as it ends every command that runs Spark."""
    console = Console()
    try:
        return run_until_signalled(lambda course: show(course, console, directory, ranges, traffic))
    except PipelineError as error:
        tell_error(error.message, error.hint)
        return 1


def show(course: Course, console: Console, directory: Path, ranges: Path | None, traffic: Traffic) -> int:
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
        course.doing = "before the first line"
        try:
            demo = Demo(spark, pipeline, places, AddressRanges.from_file(ranges).blocks, traffic)
            with course.finished_by(demo.interrupt, _STOPPING, has_begun=lambda: demo.is_fed):
                entries = demo.play(console)
        finally:
            stop_session(spark)
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
