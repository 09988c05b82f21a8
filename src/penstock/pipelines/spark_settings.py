"""Changes settings of a Spark session for a while, and restores them.

Adaptive execution is the setting that matters. Pipelines run without it, because a repeated batch must be cut into the
same tasks (`runtime.spark.session`, and `sinks.topic` in sessions of other programs). Sinks of files switch it on while
they gather the rows of a directory (`sinks.files.spark`): their files are planned once, whatever the tasks.
No setting may be changed for a small batch, whose sinks write side by side in one session: adaptive execution is off
before they begin (`runtime.batch_writing`), so a sink that wants it off finds it so and changes nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ADAPTIVE = "spark.sql.adaptive.enabled"


@contextmanager
def temporary_settings(spark: SparkSession, settings: Mapping[str, str]) -> Iterator[None]:
    """Spark reads them when it plans a query, so the query has to be run inside."""
    found = {name: spark.conf.get(name, None) for name in settings}
    before = {name: former for name, former in found.items() if former != settings[name]}
    for name in before:
        spark.conf.set(name, settings[name])
    try:
        yield
    finally:
        for name, former in before.items():
            if former is None:
                spark.conf.unset(name)
            else:
                spark.conf.set(name, former)
