"""The errors of writing rows."""

from __future__ import annotations


class WriteError(Exception):
    """Rows that could not be written. The task fails with it, and Spark tries the task again if its settings allow."""


class RefusedError(WriteError):
    """No further attempt can help: what is written already does not allow it."""


class ClaimError(WriteError):
    """The driver could not settle which tasks write the batch; it has to look again at what others have written of
    it.
    """


class ColumnError(ValueError):
    """A row's columns, or what they hold, are not what a topic takes."""
