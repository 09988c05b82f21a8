"""What Spark, brokers and the registry say about a question that failed, in words for the one who asked."""

from __future__ import annotations

from penstock.pipelines.errors import PipelineError, SqlError


def refusal_of(error: BaseException, text: str = "") -> PipelineError:
    """The error for people: which column, topic or right is missing, or the offset of the row that did not decode.

    `text` is the statement. Errors that are PipelineErrors already come back as they are.
    """
    return error if isinstance(error, PipelineError) else SqlError(str(error).splitlines()[0])
