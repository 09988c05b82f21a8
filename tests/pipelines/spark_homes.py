"""Spark as the wheel has it, but for the archive of PySpark's sources.

Spark lets its Python workers look into the archive first. Python keeps no compiled code of an archive, so each of
hundreds of workers would compile PySpark anew: a start takes 1.0 s of CPU time then, and 0.3 s without. Where there is
no archive, workers find the same PySpark as this process.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyspark


@contextmanager
def spark_home_without_archive(home: Path) -> Iterator[None]:
    if "SPARK_HOME" in os.environ:
        yield
        return
    wheel = Path(pyspark.__file__).parent
    for name in ("bin", "jars"):
        (home / name).symlink_to(wheel / name)
    os.environ["SPARK_HOME"] = str(home)
    yield
    del os.environ["SPARK_HOME"]
