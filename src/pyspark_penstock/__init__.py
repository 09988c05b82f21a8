"""Spark looks for packages whose name begins with `pyspark_` and registers their `DefaultSource`: here,
format("penstock").
"""

from penstock.pipelines.data_source import PenstockDataSource as DefaultSource

__all__ = ["DefaultSource"]
