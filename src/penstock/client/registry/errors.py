"""What a question to a registry can end in."""

from __future__ import annotations


class RegistryClientError(Exception):
    """Either of the two below: what a caller catches that only says what happened."""


class RegistryUnreachableError(RegistryClientError):
    """No registry has answered, or none that could: the question may be asked again later."""


class RegistryAnswerError(RegistryClientError):
    """A registry has answered, and says no. `code` is its own code (40401, 42201, ...), or the status."""

    def __init__(self, status: int, code: int, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.code = code
        self.message = message

    @property
    def is_not_found(self) -> bool:
        return self.status == 404

    @property
    def is_refused_login(self) -> bool:
        return self.status in (401, 403)
