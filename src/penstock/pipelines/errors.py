"""The errors of a pipeline, in words for its author and its operator."""

from __future__ import annotations

from penstock.core.extras import explained


class PipelineError(Exception):
    """`hint` gives the remedy, where one is known."""

    # Whether Spark's own words, where the error comes from Spark, would add nothing.
    says_all = False

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


class RefusedLoginError(PipelineError):
    """Brokers do not let this user in."""


class BatchError(PipelineError):
    """A micro-batch that could not be finished; it comes again when the pipeline is started again."""


class TableError(PipelineError):
    """A topic that cannot be read as the wanted table."""


class SqlError(PipelineError):
    """A query or a statement was refused or has failed; the message names its column, topic, right or record."""


class MissingError(SqlError):
    """There is no such column, table or right."""

    says_all = True


def missing_module(error: ModuleNotFoundError, needed_by: str) -> PipelineError:
    """The error for a user whose `needed_by` imports a module that is not installed."""
    told = explained(error, needed_by)
    return PipelineError(f"{needed_by} needs {error.name}, which is not installed" if told is error else str(told))
