"""One query of ours, until it is terminated: `python -m bench.streams.ours SPEC`, the SPEC as JSON."""

from __future__ import annotations

import sys

from bench.spark_works import SESSION
from bench.streams.applications import application
from bench.streams.contenders import Spec
from penstock.streams import Settings


def main(spec: Spec) -> None:
    settings = Settings(
        bootstrap_servers=spec.bootstrap,
        checkpoint=f"{spec.directory}/checkpoint",
        trigger="100 milliseconds",
        max_records_per_batch=spec.records_per_batch,
        publish_runs=False,
        spark={key: value for key, value in SESSION.items() if key != "spark.master"},
    )
    application(spec.query, settings).run(master=SESSION["spark.master"])


if __name__ == "__main__":
    main(Spec.from_json(sys.argv[1]))
