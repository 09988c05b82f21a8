"""What can be wrong with a pipeline, in words for whoever wrote or runs it."""

from __future__ import annotations


class PipelineError(Exception):
    """`hint` says what to do about it, where that is known."""

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


class BatchError(PipelineError):
    """A micro-batch that could not be finished; it comes again when the pipeline is started again."""
