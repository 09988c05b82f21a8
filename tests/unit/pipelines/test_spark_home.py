from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

_MAKE = """
import os
from penstock.pipelines.spark_home import leave_out_archive, remove_own_home
leave_out_archive()
assert os.path.isdir(os.path.join(os.environ["SPARK_HOME"], "jars"))
print(os.environ["SPARK_HOME"], flush=True)
{then}
"""


def _home_after(then: str, temporary: Path) -> Path:
    environment = {name: text for name, text in os.environ.items() if name != "SPARK_HOME"}
    run = subprocess.run(
        [sys.executable, "-c", _MAKE.format(then=then)],
        env={**environment, "TMPDIR": str(temporary)},
        capture_output=True,
        text=True,
        check=True,
    )
    return Path(run.stdout.strip())


@pytest.mark.parametrize("then", ["", "remove_own_home(); os._exit(0)"])
def test_a_process_leaves_no_home_behind(tmp_path: Path, then: str) -> None:
    home = _home_after(then, tmp_path)
    assert home.parent == tmp_path
    assert not home.exists()


def test_the_home_of_a_parent_process_stays_when_a_child_ends_by_a_signal(tmp_path: Path) -> None:
    child = "from penstock.pipelines.spark_home import remove_own_home; remove_own_home()"
    then = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {child!r}], check=True)"
    then += "\nassert os.path.isdir(os.path.join(os.environ['SPARK_HOME'], 'jars'))"
    assert not _home_after(then, tmp_path).exists()
