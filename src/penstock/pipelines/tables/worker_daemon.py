"""Spark's daemon that forks Python workers, with the modules imported that the workers of a question need.

Spark ends workers that have been idle for a minute, and workers whose rows it does not read to the end, which a limit
does. A new one would import everything again: a second of CPU time, most of it for PySpark in its archive, of which
Python keeps no compiled code. A worker that is forked from this process is there in milliseconds, and shares its
memory.

Nothing that is imported here starts a thread or opens a connection: neither would live on in a fork.
"""

from __future__ import annotations

import gc
import importlib

_MODULES = (
    "pandas",
    "pyarrow.compute",
    "pyspark.worker",
    "pyspark.sql.pandas.serializers",
    "penstock.pipelines.tables.scan",
    "penstock.pipelines.payloads.decoding",
)


def main() -> None:
    from pyspark.daemon import manager

    for name in _MODULES:
        importlib.import_module(name)
    gc.collect()
    gc.freeze()  # what is here stays, and collections in a fork need not look at it and copy its pages
    manager()


if __name__ == "__main__":
    main()
