"""`penstock pipeline` where the extra is not installed: a process in which nothing can import Spark."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

WORD_COUNT = str(Path(__file__).parents[3] / "examples" / "word_count.py")
IP_FRAUD = "penstock.pipelines.jobs.ip_fraud"
HINT = "pip install 'penstock[spark]' brings Spark; Java 17 or newer is needed to run it.\n"

# Python imports this module at its start.
SITECUSTOMIZE = """
import sys

class NoSpark:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ("pyspark", "py4j"):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, NoSpark())
"""


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("run", WORD_COUNT), "Error: pipelines need PySpark, which is not installed\n"),
        (("run", IP_FRAUD, "--once"), "Error: pipelines need PySpark, which is not installed\n"),
        (("list", WORD_COUNT), "Error: word_count needs the module 'pyspark', which is not installed\n"),
        (("describe", IP_FRAUD), f"Error: {IP_FRAUD} needs the module 'pyspark', which is not installed\n"),
    ],
)
def test_user_is_told_what_to_install_when_spark_is_missing(
    arguments: tuple[str, ...], message: str, tmp_path: Path
) -> None:
    """`run` of a pipeline whose steps import Spark ended with a traceback."""
    (tmp_path / "sitecustomize.py").write_text(SITECUSTOMIZE)
    ended = subprocess.run(
        [sys.executable, "-m", "penstock", "pipeline", *arguments],
        env=os.environ | {"PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (ended.returncode, ended.stdout, ended.stderr) == (1, "", message + HINT)
