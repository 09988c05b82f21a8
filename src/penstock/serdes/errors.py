"""The errors of values that become no payload, and of payloads that become no value."""

from __future__ import annotations


class SerdesError(Exception):
    """All of the below. The message is for the sender of the value, and shows at most a few characters of the value."""


class PayloadError(SerdesError):
    """The value does not fit the schema, or the bytes do not. `path` leads from the outermost value to the place."""

    def __init__(self, reason: str, path: tuple[str | int, ...] = ()) -> None:
        super().__init__(reason)
        self.reason = reason
        self.path = path

    def inside(self, *steps: str | int) -> PayloadError:
        """The same error, with the path from further outside."""
        self.path = (*steps, *self.path)
        return self

    def __str__(self) -> str:
        return f"{self.reason}, at {show_path(self.path)}" if self.path else self.reason


class TooLargeError(PayloadError):
    """The payload would have more bytes than allowed."""

    def __init__(self, most_bytes: int) -> None:
        super().__init__(f"the value takes more than {most_bytes} bytes once it is encoded")


class TooManyRowsError(SerdesError):
    """Together the rows take more than one column should; half of them may not. Never of a single row."""


class FramingError(SerdesError):
    """The bytes do not name the schema that they were written with."""


class ChoiceError(SerdesError):
    """The caller's choice does not lead to a schema."""


class UnusableSchemaError(SerdesError):
    """The text of the schema is none, or none that data can be written with."""


def show_path(path: tuple[str | int, ...]) -> str:
    """`order.lines[3].price`."""
    text = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in path)
    return text.removeprefix(".")
