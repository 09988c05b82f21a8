"""One query of ours, until it is terminated: `python -m bench.streams.ours SPEC`, the SPEC as JSON."""

from __future__ import annotations

import sys

from bench.spark_works import SESSION
from bench.streams.applications import application
from bench.streams.contenders import Spec
from penstock.streams import Settings
from spark_connector.jars import fetch_connector_jars


def main(spec: Spec) -> None:
    session = SESSION | (_in_real_time() if spec.is_in_real_time else {})
    settings = Settings(
        bootstrap_servers=spec.bootstrap,
        checkpoint=f"{spec.directory}/checkpoint",
        trigger="realtime" if spec.is_in_real_time else "100 milliseconds",
        engine="jvm" if spec.is_in_real_time else "python",
        max_records_per_batch=spec.records_per_batch,
        publish_runs=False,
        spark={key: value for key, value in session.items() if key != "spark.master"},
    )
    application(spec.query, settings).run(master=session["spark.master"])


def _in_real_time() -> dict[str, str]:
    """One task that reads and one with state, and Spark's own connector."""
    jars = ",".join(map(str, fetch_connector_jars()))
    return {"spark.sql.shuffle.partitions": "1", "spark.jars": jars}


if __name__ == "__main__":
    main(Spec.from_json(sys.argv[1]))
