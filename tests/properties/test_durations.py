"""The grammar of durations against what it wrote itself, and against the grammars that it replaced."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from penstock.core.time.durations import duration_ms, duration_text

# What the command line, applications of streams and options of Spark's source each took before they shared a grammar.
CLI_UNITS = {"ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000, "w": 604_800_000}
ISO_UNITS = (("W", 604_800_000), ("D", 86_400_000), ("H", 3_600_000), ("M", 60_000))
STREAM_UNITS = {
    "millisecond": 1, "second": 1000, "minute": 60_000, "hour": 3_600_000, "day": 86_400_000, "week": 604_800_000,
    "ms": 1, "s": 1000, "sec": 1000, "min": 60_000, "h": 3_600_000, "d": 86_400_000,
}  # fmt: skip
OPTION_UNITS = {"us": 0.001, "ms": 1, "s": 1000, "m": 60_000, "min": 60_000, "h": 3_600_000, "d": 86_400_000, "": 1}

COUNTS = st.integers(0, 10**9)


@given(st.integers(0, 2**63 - 1))
def test_a_duration_comes_back_when_its_text_is_read(milliseconds: int) -> None:
    assert duration_ms(duration_text(milliseconds)) == milliseconds


@given(
    st.lists(
        st.tuples(st.integers(0, 10**6), st.integers(-1, 999), st.sampled_from(sorted(CLI_UNITS))),
        min_size=1,
        max_size=6,
    )
)
def test_the_milliseconds_are_the_same_when_the_command_line_took_the_text(parts: list[tuple[int, int, str]]) -> None:
    # A part of a millisecond would compare the rounding of sums of floats.
    numbers = [(f"{whole}" if part < 0 or unit == "ms" else f"{whole}.{part:03d}", unit) for whole, part, unit in parts]
    text = "".join(number + unit for number, unit in numbers)
    assert duration_ms(text) == round(sum(float(number) * CLI_UNITS[unit] for number, unit in numbers))


@given(st.lists(st.none() | COUNTS, min_size=4, max_size=4), st.none() | st.integers(0, 10**9))
def test_the_milliseconds_are_the_same_when_the_command_line_took_iso_8601(
    counts: list[int | None], seconds_ms: int | None
) -> None:
    given_parts = [
        "" if count is None else f"{count}{unit}" for count, (unit, _) in zip(counts, ISO_UNITS, strict=True)
    ]
    seconds = "" if seconds_ms is None else f"{seconds_ms // 1000}.{seconds_ms % 1000:03d}S"
    text = f"P{''.join(given_parts[:2])}T{''.join(given_parts[2:])}{seconds}"
    if text != "PT":
        expected = sum((count or 0) * unit for count, (_, unit) in zip(counts, ISO_UNITS, strict=True))
        assert duration_ms(text) == expected + (seconds_ms or 0)


@given(
    st.lists(
        st.tuples(COUNTS, st.sampled_from(["", " ", "  "]), st.sampled_from(sorted(STREAM_UNITS)), st.booleans()),
        min_size=1,
        max_size=6,
    ),
    st.sampled_from(["", " "]),
)
def test_the_milliseconds_are_the_same_when_applications_took_the_text(
    parts: list[tuple[int, str, str, bool]], between: str
) -> None:
    written = [
        f"{count}{gap}{unit + 's' if is_plural and len(unit) > 3 else unit.title()}"
        for count, gap, unit, is_plural in parts
    ]
    assert duration_ms(between.join(written)) == sum(count * STREAM_UNITS[unit] for count, _, unit, _ in parts)


@given(COUNTS, st.sampled_from(["", " "]), st.sampled_from(sorted(OPTION_UNITS)))
def test_the_milliseconds_are_the_same_when_an_option_took_the_text(count: int, gap: str, unit: str) -> None:
    assert duration_ms(f"{count}{gap}{unit}", takes_bare_number=True) == int(count * OPTION_UNITS[unit])
