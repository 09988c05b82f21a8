"""What Spark's JVM says on stderr, and what of it is kept."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from penstock.core.properties import read_properties
from penstock.pipelines.runtime.spark.gateway import Telling, news, options_for_hidden, visible_settings

INCUBATOR = b"WARNING: Using incubator modules: jdk.incubator.vector\n"


def test_no_secret_is_on_javas_command_line_when_settings_name_one() -> None:
    assert visible_settings({"spark.app.name": "a", "spark.hadoop.fs.s3a.secret.key": "x"}) == {"spark.app.name": "a"}


def test_spark_submit_reads_secrets_from_a_file_of_its_owner_when_settings_name_some() -> None:
    settings = {"spark.app.name": "a", "spark.hadoop.fs.s3a.secret.key": " =\u00e9\\", "other.password": "y"}
    with options_for_hidden(settings) as options:
        assert (options[0], options[2:]) == ("--properties-file", ["--load-spark-defaults"])
        path = Path(options[1])
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        assert read_properties(path) == {"spark.hadoop.fs.s3a.secret.key": " =\u00e9\\"}
    assert not path.exists()
    with options_for_hidden({"spark.app.name": "a"}) as options:
        assert options == []


def test_a_known_line_is_left_out_when_the_jvm_starts() -> None:
    assert list(news([INCUBATOR, b"Error: Could not create the Java Virtual Machine.\n"])) == [
        b"Error: Could not create the Java Virtual Machine.\n"
    ]


def test_a_line_that_says_more_is_kept_when_it_begins_like_a_known_one() -> None:
    more = b"WARNING: Using incubator modules: jdk.incubator.vector, jdk.incubator.other\n"
    assert list(news([more])) == [more]


def test_all_else_is_kept_when_the_pipe_is_read_to_its_end() -> None:
    reading, writing = os.pipe()
    kept: list[bytes] = []
    telling = Telling(reading, kept.append)
    telling.start()
    os.write(writing, INCUBATOR + b"a line that is \xff no text\nhalf a line")
    os.close(writing)
    telling.join()
    assert kept == [b"a line that is \xff no text\n", b"half a line"]
