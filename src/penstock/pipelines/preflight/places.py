"""Directories on this machine: whether what is to be written there can be."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from penstock.core.words.failure_text import describe_file
from penstock.pipelines.errors import PipelineError
from penstock.pipelines.locations import local_path, path_here

# Where a session may have settings that this process does not see.
_ELSEWHERE = ("HADOOP_CONF_DIR", "YARN_CONF_DIR", "SPARK_CONF_DIR", "PYSPARK_SUBMIT_ARGS", "PYSPARK_GATEWAY_PORT")


def has_settings_elsewhere(environment: Mapping[str, str]) -> bool:
    home = environment.get("SPARK_HOME")
    has_conf = home is not None and Path(home, "conf").is_dir()
    return has_conf or any(name in environment for name in _ELSEWHERE)


def certain_path(
    location: str, settings: Mapping[str, str], environment: Mapping[str, str] = os.environ
) -> Path | None:
    """The path of a checkpoint, before there is a session. None where it is on another machine, or may be."""
    is_here = settings.get("spark.master", "").startswith("local") and not has_settings_elsewhere(environment)
    is_told = any(name.startswith("spark.hadoop.fs.") for name in settings)
    return path_here(location, "file:///" if is_here and not is_told else "")


def check_directory(location: str, what: str) -> None:
    """PipelineError where no file can be made in a directory that is there, or is to be made."""
    path = local_path(location)
    if path is None:
        return
    found = describe_file(str(path))
    if found:
        raise PipelineError(f"{what} {path} cannot be used: {found}")
    above = path.absolute()
    while not above.exists():
        above = above.parent
    if not os.access(above, os.W_OK | os.X_OK):
        raise PipelineError(f"{what} {path} cannot be written: {above} is not yours to write to")
