"""What Spark's JVM says on stderr, and what of it is passed on."""

from __future__ import annotations

import os

import pytest

from penstock.pipelines.running.gateway import Telling, news

INCUBATOR = b"WARNING: Using incubator modules: jdk.incubator.vector\n"


def test_a_known_line_is_left_out_when_the_jvm_starts() -> None:
    assert list(news([INCUBATOR, b"Error: Could not create the Java Virtual Machine.\n"])) == [
        b"Error: Could not create the Java Virtual Machine.\n"
    ]


def test_a_line_that_says_more_is_passed_on_when_it_begins_like_a_known_one() -> None:
    more = b"WARNING: Using incubator modules: jdk.incubator.vector, jdk.incubator.other\n"
    assert list(news([more])) == [more]


def test_all_else_reaches_stderr_when_the_pipe_is_read_to_its_end(capsys: pytest.CaptureFixture[str]) -> None:
    reading, writing = os.pipe()
    telling = Telling(reading)
    telling.start()
    os.write(writing, INCUBATOR + b"a line that is \xff no text\nhalf a line")
    os.close(writing)
    telling.join()
    assert capsys.readouterr().err == "a line that is \ufffd no text\nhalf a line"
