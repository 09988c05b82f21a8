"""Values of records, unique by their number. Padding makes a record that was cut short recognisable."""

from __future__ import annotations

from confluent_kafka import Message

_PADDING = b" " + b"." * 100


def encode_value(number: int) -> bytes:
    """`number` is unique in the run: see `Recorder.take_value`."""
    return b"%d%b" % (number, _PADDING)


def read_value(message: Message) -> int | str:
    """The number, or the fault of the value."""
    return decode_value(message.value())


def decode_value(value: bytes | None) -> int | str:
    content = value or b""
    number, _, padding = content.partition(b" ")
    is_whole = number.isdigit() and b" " + padding == _PADDING
    return int(number) if is_whole else f"not a value of this run: {content!r}"
