"""The errors of an application of streams, in words for its author."""

from __future__ import annotations

from penstock.pipelines.errors import PipelineError


class StreamsError(PipelineError):
    """`hint` gives the remedy, where one is known."""
