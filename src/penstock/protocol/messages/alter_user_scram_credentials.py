"""AlterUserScramCredentials: written by tools/generate_messages.py from Kafka's definitions. Do not edit."""

from __future__ import annotations

from penstock.protocol.fields import Field
from penstock.protocol.message import Message


class AlterUserScramCredentialsResult(Message):
    __slots__ = ("user", "error_code", "error_message")
    FIELDS = (
        Field("user", "string", (0, 32767), default=""),
        Field("error_code", "int16", (0, 32767), default=0),
        Field("error_message", "string", (0, 32767), nullable=(0, 32767), default=""),
    )

    def __init__(
        self,
        *,
        user: str = "",
        error_code: int = 0,
        error_message: str | None = "",
    ) -> None:
        self.user = user
        self.error_code = error_code
        self.error_message = error_message


class AlterUserScramCredentialsResponse(Message):
    __slots__ = ("throttle_time_ms", "results")
    FIELDS = (
        Field("throttle_time_ms", "int32", (0, 32767), default=0),
        Field("results", [AlterUserScramCredentialsResult], (0, 32767), default=()),
    )
    API_KEY = 51
    MIN_VERSION = 0
    MAX_VERSION = 0
    FLEXIBLE_FROM = 0

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        results: list[AlterUserScramCredentialsResult] | None = None,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.results = [] if results is None else results


class ScramCredentialDeletion(Message):
    __slots__ = ("name", "mechanism")
    FIELDS = (
        Field("name", "string", (0, 32767), default=""),
        Field("mechanism", "int8", (0, 32767), default=0),
    )

    def __init__(
        self,
        *,
        name: str = "",
        mechanism: int = 0,
    ) -> None:
        self.name = name
        self.mechanism = mechanism


class ScramCredentialUpsertion(Message):
    __slots__ = ("name", "mechanism", "iterations", "salt", "salted_password")
    FIELDS = (
        Field("name", "string", (0, 32767), default=""),
        Field("mechanism", "int8", (0, 32767), default=0),
        Field("iterations", "int32", (0, 32767), default=0),
        Field("salt", "bytes", (0, 32767), default=b""),
        Field("salted_password", "bytes", (0, 32767), default=b""),
    )

    def __init__(
        self,
        *,
        name: str = "",
        mechanism: int = 0,
        iterations: int = 0,
        salt: bytes = b"",
        salted_password: bytes = b"",
    ) -> None:
        self.name = name
        self.mechanism = mechanism
        self.iterations = iterations
        self.salt = salt
        self.salted_password = salted_password


class AlterUserScramCredentialsRequest(Message):
    __slots__ = ("deletions", "upsertions")
    FIELDS = (
        Field("deletions", [ScramCredentialDeletion], (0, 32767), default=()),
        Field("upsertions", [ScramCredentialUpsertion], (0, 32767), default=()),
    )
    API_KEY = 51
    MIN_VERSION = 0
    MAX_VERSION = 0
    FLEXIBLE_FROM = 0
    RESPONSE = AlterUserScramCredentialsResponse

    def __init__(
        self,
        *,
        deletions: list[ScramCredentialDeletion] | None = None,
        upsertions: list[ScramCredentialUpsertion] | None = None,
    ) -> None:
        self.deletions = [] if deletions is None else deletions
        self.upsertions = [] if upsertions is None else upsertions
