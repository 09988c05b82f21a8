"""Runs the benchmark: `python -m bench [--rounds N] [--only NAME] [--quick] [--write] [--against REF]`."""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections import defaultdict
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Protocol

import confluent_kafka

from apache_kafka.jars import PeerUnavailableError
from bench.admin.run import ADMIN_NAMES, AdminRun
from bench.against import QUICK_REQUESTS, REQUESTS, measure_against
from bench.against import ROUNDS as AGAINST_ROUNDS
from bench.catalogue import LOADS
from bench.cluster.clusters import CLUSTERS
from bench.cluster.run import CLUSTER_NAMES, ClusterRun
from bench.contenders import CONTENDERS, Contender, resident_megabytes
from bench.decisions.run import DECISION_NAMES, PARTITIONS, QUICK_PARTITIONS, DecisionsRun
from bench.decoding.run import DECODING_NAMES, QUICK_RECORDS, RECORDS, DecodingRun
from bench.errors import BenchError
from bench.gathering import Gathering, alternate
from bench.http.run import HTTP_NAMES, HttpRun
from bench.lifecycle import LIFECYCLE
from bench.loads import FULL, QUICK, Figures, Scale, create_topic
from bench.report import print_table, write_document
from bench.rows import Samples, compare
from bench.secured.run import SECURED_NAMES, SecuredRun
from bench.spark import FULL as SPARK_FULL
from bench.spark import NAMES as SPARK_NAMES
from bench.spark import QUICK as SPARK_QUICK
from bench.spark import measure as measure_spark
from bench.spark_report import print_result, write_result
from bench.sql.run import QUICK_RECORDS as SQL_QUICK
from bench.sql.run import RECORDS as SQL_RECORDS
from bench.sql.run import SQL_NAMES, SqlRun
from bench.stalls import LoopStalls
from bench.streams.run import FULL as STREAMS_FULL
from bench.streams.run import QUICK as STREAMS_QUICK
from bench.streams.run import STREAMS_NAMES, StreamsRun
from penstock.testing.processes import ServerProcess, ServerProcessError

NAMES = (
    *(*LOADS, *LIFECYCLE, *SECURED_NAMES, *ADMIN_NAMES, *HTTP_NAMES, *DECODING_NAMES, *CLUSTER_NAMES, *DECISION_NAMES),
    *(*SPARK_NAMES, *SQL_NAMES, *STREAMS_NAMES),
)
# A round of Spark starts fourteen drivers, one of decisions takes a minute of CPU.
ROUNDS, SPARK_ROUNDS, DECISION_ROUNDS = 5, 3, 1


def parse_arguments(arguments: list[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench", description="Penstock and Apache Kafka, side by side.")
    parser.add_argument(
        "--rounds",
        type=int,
        help=f"alternating rounds, of which the medians count; {ROUNDS} unless told, {SPARK_ROUNDS} of Spark",
    )
    parser.add_argument("--only", action="append", choices=NAMES, help="measure only this; may be repeated")
    parser.add_argument(
        "--contender", choices=[contender.name for contender in CONTENDERS], help="measure only one of the two"
    )
    parser.add_argument("--quick", action="store_true", help="one small round, to see that it works")
    parser.add_argument("--write", action="store_true", help="put the result into docs/benchmarks.md")
    parser.add_argument(
        "--against",
        metavar="REF",
        help="instead: CPU a request of one broker, this tree beside that commit of it, in ten rounds unless told",
    )
    return parser.parse_args(arguments)


class Run:
    """One run over the chosen contenders; figures gather in `samples`."""

    def __init__(self, contenders: list[Contender], scale: Scale, rounds: int, directory: Path) -> None:
        self.contenders = contenders
        self.scale = scale
        self.rounds = rounds
        self.directory = directory
        self.samples: Samples = {contender.name: defaultdict(list) for contender in contenders}
        self.stalls = LoopStalls()

    def measure_loads(self, names: list[str]) -> None:
        with ExitStack() as stack:
            servers = [
                (contender, stack.enter_context(contender.make(self.directory / contender.name.replace(" ", "-"))))
                for contender in self.contenders
            ]
            for contender, server in servers:
                # The first start compiles the sources, and 6 MB of that stay; an installed package has the bytecode.
                server.restart()
                # Idle, but in use: a topic exists and a record was taken.
                create_topic(server)
                self._keep(contender, {"memory-idle": resident_megabytes(server.pid)})
            for contender, server in servers:
                self._warm_up(contender, server, names)
            for number in range(self.rounds):
                for name in names:
                    for contender, server in alternate(servers, number):
                        self._keep(contender, _run_load(name, server, self.scale), f"round {number + 1}")
                        for stall in self.stalls.look(server, name):
                            print(f"{contender.name}: {stall}", flush=True)
            for contender, server in servers:
                self._keep(contender, {"memory-loaded": resident_megabytes(server.pid)})

    def measure_lifecycle(self, names: list[str]) -> None:
        for name in names:
            for number in range(self.rounds):
                for contender in self.contenders:
                    directory = self.directory / f"{name}-{number}-{contender.name.replace(' ', '-')}"
                    self._keep(contender, LIFECYCLE[name](contender, directory, self.scale), f"round {number + 1}")

    def _warm_up(self, contender: Contender, server: ServerProcess, names: list[str]) -> None:
        """The compiler of a Java broker needs some load before it shows what it can do; both get the same."""
        for name in names:
            _run_load(name, server, QUICK)
        print(f"{contender.name}: warm", flush=True)

    def _keep(self, contender: Contender, figures: Figures, when: str = "") -> None:
        for key, value in figures.items():
            self.samples[contender.name][key].append(value)
        shown = "  ".join(f"{key} {value:,.2f}" for key, value in figures.items())
        print(f"{contender.name}: {when + ': ' if when else ''}{shown}", flush=True)


def _run_load(name: str, server: ServerProcess, scale: Scale) -> Figures:
    try:
        return LOADS[name](server, scale)
    except (BenchError, OSError, confluent_kafka.KafkaException) as error:
        raise BenchError(server.describe(f"failed under the load '{name}': {error}")) from error


def compare_in_spark(names: list[str], options: argparse.Namespace) -> None:
    rounds = 1 if options.quick else options.rounds or SPARK_ROUNDS
    result = measure_spark(names, SPARK_QUICK if options.quick else SPARK_FULL, rounds)
    print_result(result)
    if options.write:
        write_result(result, rounds)


def compare_clusters(names: list[str], options: argparse.Namespace, directory: Path) -> list[str]:
    """What held the event loops."""
    clusters = [cluster for cluster in CLUSTERS if options.contender in (None, cluster.name)]
    scale, rounds = (QUICK, 1) if options.quick else (FULL, options.rounds or ROUNDS)
    run = ClusterRun(clusters, scale, rounds, directory)
    run.measure(names)
    run.result.show()
    if options.write:
        run.result.write(rounds)
    return run.stalls.found


def compare_secured(names: list[str], options: argparse.Namespace, directory: Path) -> list[str]:
    """What held the event loop."""
    contenders = [contender for contender in CONTENDERS if options.contender in (None, contender.name)]
    scale, rounds = (QUICK, 1) if options.quick else (FULL, options.rounds or ROUNDS)
    run = SecuredRun(contenders, scale, rounds, directory)
    run.measure(names)
    run.result.show()
    if options.write:
        run.result.write(rounds)
    return run.stalls.found


class Measuring(Protocol):
    """Rows that are measured together, and what was found."""

    result: Gathering

    def measure(self, names: Sequence[str]) -> None: ...


def carry_out(run: Measuring, names: Sequence[str], rounds: int, options: argparse.Namespace) -> None:
    run.measure(names)
    run.result.show()
    if options.write:
        run.result.write(rounds)


def compare_admin(names: list[str], options: argparse.Namespace, directory: Path) -> None:
    scale, rounds = (QUICK, 1) if options.quick else (FULL, options.rounds or ROUNDS)
    carry_out(AdminRun(scale, rounds, directory), names, rounds, options)


def compare_http(names: list[str], options: argparse.Namespace, directory: Path) -> None:
    scale, rounds = (QUICK, 1) if options.quick else (FULL, options.rounds or ROUNDS)
    run = HttpRun(scale, rounds, directory)
    carry_out(run, names, rounds, options)


def compare_decoding(names: list[str], options: argparse.Namespace) -> None:
    count, rounds = (QUICK_RECORDS, 1) if options.quick else (RECORDS, options.rounds or ROUNDS)
    run = DecodingRun(count, rounds)
    carry_out(run, names, rounds, options)


def compare_decisions(names: list[str], options: argparse.Namespace) -> None:
    count, rounds = (QUICK_PARTITIONS, 1) if options.quick else (PARTITIONS, options.rounds or DECISION_ROUNDS)
    run = DecisionsRun(count, rounds)
    carry_out(run, names, rounds, options)


def compare_sql(names: list[str], options: argparse.Namespace, directory: Path) -> None:
    count, rounds = (SQL_QUICK, 1) if options.quick else (SQL_RECORDS, options.rounds or ROUNDS)
    run = SqlRun(count, rounds, directory)
    carry_out(run, names, rounds, options)


def compare_streams(names: list[str], options: argparse.Namespace) -> None:
    scale, rounds = (STREAMS_QUICK, 1) if options.quick else (STREAMS_FULL, options.rounds or SPARK_ROUNDS)
    run = StreamsRun(scale, rounds)
    carry_out(run, names, rounds, options)


def compare_payloads(chosen: Sequence[str], options: argparse.Namespace, directory: Path) -> None:
    """Over HTTP, in columns, by SQL, and as streams."""
    if http_names := [name for name in chosen if name in HTTP_NAMES]:
        compare_http(http_names, options, directory)
    if decoding_names := [name for name in chosen if name in DECODING_NAMES]:
        compare_decoding(decoding_names, options)
    if sql_names := [name for name in chosen if name in SQL_NAMES]:
        compare_sql(sql_names, options, directory)
    if streams_names := [name for name in chosen if name in STREAMS_NAMES]:
        compare_streams(streams_names, options)


def compare_with_commit(options: argparse.Namespace, directory: Path) -> None:
    count, rounds = (QUICK_REQUESTS, 1) if options.quick else (REQUESTS, options.rounds or AGAINST_ROUNDS)
    for ratios in measure_against(options.against, rounds, count, directory):
        print(ratios.describe())


def main(arguments: list[str] | None = None) -> int:
    options = parse_arguments(arguments)
    contenders = [contender for contender in CONTENDERS if options.contender in (None, contender.name)]
    chosen = options.only or NAMES
    rounds = 1 if options.quick else options.rounds or ROUNDS
    with tempfile.TemporaryDirectory(prefix="penstock-bench-") as directory:
        run = Run(contenders, QUICK if options.quick else FULL, rounds, Path(directory))
        try:
            if options.against:
                compare_with_commit(options, Path(directory))
                return 0
            if loads := [name for name in chosen if name in LOADS]:
                run.measure_loads(loads)
            run.measure_lifecycle([name for name in chosen if name in LIFECYCLE])
            if comparisons := compare(run.samples):
                print_table(comparisons)
                if options.write:
                    write_document(comparisons, rounds)
            if secured_names := [name for name in chosen if name in SECURED_NAMES]:
                run.stalls.found += compare_secured(secured_names, options, Path(directory))
            if admin_names := [name for name in chosen if name in ADMIN_NAMES]:
                compare_admin(admin_names, options, Path(directory))
            compare_payloads(chosen, options, Path(directory))
            if cluster_names := [name for name in chosen if name in CLUSTER_NAMES]:
                run.stalls.found += compare_clusters(cluster_names, options, Path(directory))
            if decision_names := [name for name in chosen if name in DECISION_NAMES]:
                compare_decisions(decision_names, options)
            if spark_names := [name for name in chosen if name in SPARK_NAMES]:
                compare_in_spark(spark_names, options)
            if run.stalls.found:
                print(
                    "bench: the event loop was held for more than 100 ms",
                    *run.stalls.found,
                    sep="\n  ",
                    file=sys.stderr,
                )
                return 1
        except (BenchError, PeerUnavailableError, ServerProcessError) as error:
            print(f"bench: {error}", file=sys.stderr)
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
