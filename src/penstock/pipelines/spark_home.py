"""Spark as the wheel has it, but for the archive of PySpark's sources.

Spark lets its Python workers look into the archive first. Python keeps no compiled code of an archive, so every worker
compiles PySpark anew: a start takes 1.0 s of CPU time then, and 0.3 s without. Where there is no archive, workers find
the same PySpark as this process. On this machine alone: elsewhere Spark brings its own.
"""

from __future__ import annotations

import atexit
import os
import shutil
import tempfile
from pathlib import Path

VARIABLE = "SPARK_HOME"
_NEEDED = ("bin", "jars")
_PREFIX = "penstock-spark-home-"


def leave_out_archive() -> None:
    """Before Spark's JVM starts. Does nothing where SPARK_HOME is set."""
    import pyspark

    wheel = Path(pyspark.__file__).parent
    if VARIABLE in os.environ or not all((wheel / name).is_dir() for name in _NEEDED):
        return
    home = tempfile.mkdtemp(prefix=_own_prefix())
    atexit.register(shutil.rmtree, home, ignore_errors=True)
    for name in _NEEDED:
        (Path(home) / name).symlink_to(wheel / name)
    os.environ[VARIABLE] = home


def remove_own_home() -> None:
    """Of this process; does nothing where the user or a parent process has set SPARK_HOME."""
    home = os.environ.get(VARIABLE, "")
    if os.path.basename(home).startswith(_own_prefix()):
        shutil.rmtree(home, ignore_errors=True)


def _own_prefix() -> str:
    return f"{_PREFIX}{os.getpid()}-"
