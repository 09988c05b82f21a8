"""Work of several questions, without I/O: a generator yields each question, and takes its answer.

Logins and the choice of versions are such work. `take_steps` of each face sends the questions, in that face's way.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Any, NamedTuple, TypeAlias, TypeVar

from penstock.protocol.message import Message
from penstock.security.sasl.exchange import Slow

Result = TypeVar("Result")


class SendStep(NamedTuple):
    message: Message
    version: int


# A question comes back as its response; a `Slow`, which may block its thread, as what it returns.
Steps: TypeAlias = Generator[SendStep | Slow, Any, Result]
