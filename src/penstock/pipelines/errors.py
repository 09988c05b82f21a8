"""What can be wrong with a pipeline, in words for its author and its operator."""

from __future__ import annotations

# The modules that the extra brings, and what says how to get it.
_EXTRA_MODULES = frozenset({"fastavro", "google", "numpy", "pandas", "py4j", "pyarrow", "pyspark", "sqlalchemy"})
INSTALL_SPARK = "pip install 'penstock[spark]' brings Spark; Java 17 or newer is needed to run it."


class PipelineError(Exception):
    """`hint` says what to do about it, where that is known."""

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


class BatchError(PipelineError):
    """A micro-batch that could not be finished; it comes again when the pipeline is started again."""


class TableError(PipelineError):
    """A topic that cannot be read as the table that was asked for."""


class SqlError(PipelineError):
    """A question or a statement that is refused or has failed: which column, topic, right or record it is about."""


def missing_module(error: ModuleNotFoundError, needed_by: str) -> PipelineError:
    """The error for a user whose `needed_by` imports a module that is not installed."""
    name = error.name or "?"
    hint = INSTALL_SPARK if name.partition(".")[0] in _EXTRA_MODULES else ""
    return PipelineError(f"{needed_by} needs the module {name!r}, which is not installed", hint)
