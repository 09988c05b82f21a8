"""Both formats, hostile text, and the limits on storms."""

from __future__ import annotations

import io
import json
import logging
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from penstock.core import logs
from penstock.core.logs import JsonFormatter, Limiter, RateLimitedLog, TextFormatter


def record(message: str = "hello", *arguments: object, level: int = logging.INFO, **extra: object) -> logging.LogRecord:
    made = logging.LogRecord("penstock.broker.fetch", level, __file__, 1, message, arguments, None)
    made.created, made.msecs = 1_700_000_000.123, 123.0
    vars(made).update(extra)
    return made


def as_text(made: logging.LogRecord) -> str:
    return TextFormatter().format(made)


def as_json(made: logging.LogRecord) -> dict[str, Any]:
    line: dict[str, Any] = json.loads(JsonFormatter().format(made))
    return line


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture
def restored_logger() -> Iterator[logging.Logger]:
    logger = logging.getLogger(logs.ROOT_LOGGER)
    before = (logger.handlers[:], logger.level, logger.propagate)
    yield logger
    logger.handlers[:], logger.propagate = before[0], before[2]
    logger.setLevel(before[1])


class TestText:
    def test_line_has_level_short_name_message_and_fields_when_formatted(self) -> None:
        line = as_text(record("fetched %d", 3, level=logging.WARNING, topic="orders", partition=0))
        assert line.endswith(".123 WARN  broker.fetch: fetched 3 topic=orders partition=0")

    def test_value_is_quoted_when_it_has_spaces_or_is_empty(self) -> None:
        assert as_text(record(reason="no space left", client="")).endswith(' reason="no space left" client=""')

    def test_line_stays_one_line_when_a_client_sends_control_characters(self) -> None:
        line = as_text(record("got %s", "x\nERROR forged\x1b[2J", client="a\r\nb\u2028c"))
        assert len(line.splitlines()) == 1
        assert "\x1b" not in line
        assert r"x\nERROR forged\x1b[2J" in line
        assert r'client="a\r\nb\u2028c"' in line

    def test_value_is_cut_when_it_is_very_long(self) -> None:
        line = as_text(record("%s", "m" * 10_000, name_sent="n" * 5_000))
        assert len(line) < 2 * logs.MAX_VALUE_CHARACTERS + 200
        assert "(5000 characters)" in line

    def test_bytes_are_readable_when_they_are_logged(self) -> None:
        assert as_text(record(sent=b"ab\xff")).endswith(r"sent=ab\xff")

    def test_traceback_is_indented_when_an_exception_is_logged(self) -> None:
        made = record("failed")
        try:
            raise ValueError("bad\n2026-01-01 00:00:00.000 INFO  forged: line")
        except ValueError:
            made.exc_info = sys.exc_info()
        lines = as_text(made).splitlines()
        assert lines[0].endswith("broker.fetch: failed")
        assert all(line.startswith("    ") for line in lines[1:])

    def test_colours_are_used_when_the_formatter_is_told_to(self) -> None:
        assert "\x1b[31mERROR\x1b[0m" in TextFormatter(colours=True).format(record(level=logging.ERROR))


class TestJson:
    def test_line_is_one_object_with_utc_time_when_formatted(self) -> None:
        assert as_json(record("fetched %d", 3, topic="orders", partition=0, ratio=0.5, leader=None)) == {
            "time": "2023-11-14T22:13:20.123Z",
            "level": "INFO",
            "logger": "broker.fetch",
            "message": "fetched 3",
            "topic": "orders",
            "partition": 0,
            "ratio": 0.5,
            "leader": None,
        }

    def test_own_fields_win_when_an_extra_has_the_same_name(self) -> None:
        assert as_json(record(level=logging.INFO, time="then", logger="other"))["logger"] == "broker.fetch"

    def test_values_become_text_when_json_has_no_such_type(self) -> None:
        line = as_json(record(path=b"\xff", items=("a", 1), long="x" * 3_000))
        assert line["path"] == r"\xff"
        assert line["items"] == "('a', 1)"
        assert line["long"].endswith("... (3000 characters)")

    def test_line_stays_one_line_when_an_exception_is_logged(self) -> None:
        made = record("failed")
        try:
            raise ValueError("bad\nvalue")
        except ValueError:
            made.exc_info = sys.exc_info()
        text = JsonFormatter().format(made)
        assert len(text.splitlines()) == 1
        assert json.loads(text)["exception"].endswith("ValueError: bad\nvalue")


@pytest.mark.usefixtures("restored_logger")
class TestConfigure:
    def test_lines_go_to_the_stream_when_configured(self) -> None:
        stream = io.StringIO()
        logs.configure("json", "warning", stream)
        logging.getLogger("penstock.server").info("not shown")
        logging.getLogger("penstock.server").warning("shown", extra={"port": 9092})
        (line,) = stream.getvalue().splitlines()
        assert json.loads(line)["port"] == 9092

    def test_lines_are_written_once_when_configured_twice(self) -> None:
        first, second = io.StringIO(), io.StringIO()
        logs.configure("text", "info", first)
        logs.configure("text", "info", second)
        logging.getLogger("penstock.server").info("hello")
        assert first.getvalue() == ""
        assert second.getvalue().count("hello") == 1

    def test_handlers_of_others_stay_when_configured(self, restored_logger: logging.Logger) -> None:
        other = logging.NullHandler()
        restored_logger.addHandler(other)
        logs.configure("text", "info", io.StringIO())
        assert other in restored_logger.handlers

    def test_colours_appear_only_when_the_stream_is_a_terminal(self) -> None:
        for stream, has_colours in ((Terminal(), True), (io.StringIO(), False)):
            logs.configure("text", "info", stream)
            logging.getLogger("penstock.server").info("hello")
            assert ("\x1b[" in stream.getvalue()) is has_colours

    @pytest.mark.parametrize(("format_name", "level"), [("xml", "info"), ("text", "loud")])
    def test_setting_is_refused_when_it_is_unknown(self, format_name: str, level: str) -> None:
        with pytest.raises(ValueError, match="must be one of"):
            logs.configure(format_name, level, io.StringIO())


class TestLimiter:
    def test_line_is_held_back_when_its_key_was_seen_within_the_interval(self) -> None:
        limiter = Limiter(interval_ms=100)
        assert [limiter.allow("a", now) for now in (0, 50, 99)] == [0, None, None]

    def test_number_held_back_is_told_when_the_interval_has_passed(self) -> None:
        limiter = Limiter(interval_ms=100)
        assert [limiter.allow("a", now) for now in (0, 50, 99, 100, 150, 200)] == [0, None, None, 2, None, 1]

    def test_burst_is_allowed_when_asked_for(self) -> None:
        limiter = Limiter(interval_ms=100, burst=3)
        assert [limiter.allow("a", 0) for _ in range(4)] == [0, 0, 0, None]

    def test_keys_do_not_share_a_budget_when_there_are_few(self) -> None:
        limiter = Limiter(interval_ms=100)
        assert [limiter.allow("a", 0), limiter.allow("b", 0)] == [0, 0]

    def test_new_keys_share_one_budget_when_there_are_too_many(self) -> None:
        limiter = Limiter(interval_ms=100, max_keys=10)
        written = [limiter.allow(f"key {n}", 0) for n in range(1_000)]
        assert written.count(0) == 11

    def test_new_key_is_allowed_when_older_ones_have_ended(self) -> None:
        limiter = Limiter(interval_ms=100, max_keys=2)
        for key in ("a", "b"):
            limiter.allow(key, 0)
        assert [limiter.allow("c", 100), limiter.allow("d", 100)] == [0, 0]

    def test_later_line_says_how_many_were_held_back_when_written(self, restored_logger: logging.Logger) -> None:
        stream = io.StringIO()
        logs.configure("json", "info", stream)
        moments = iter((0, 10, 20, 100))
        limited = RateLimitedLog(restored_logger.getChild("server"), Limiter(interval_ms=100), lambda: next(moments))
        written = [limited.once_per("bad frame", logging.WARNING, "bad frame", {"client": n}) for n in range(4)]
        assert written == [True, False, False, True]
        assert [json.loads(line).get("held_back") for line in stream.getvalue().splitlines()] == [None, 2]
