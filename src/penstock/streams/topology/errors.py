"""What can be wrong with an application of streams, in words for its author."""

from __future__ import annotations

from penstock.pipelines.errors import PipelineError


class StreamsError(PipelineError):
    """`hint` says what to do about it, where that is known."""
