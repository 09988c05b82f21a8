"""Spark's refusals while a query is put together, as errors that name the node."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from penstock.pipelines.causes import first_cause
from penstock.streams.topology.errors import StreamsError
from penstock.streams.topology.nodes import Node


@contextmanager
def named_in_errors(node: Node) -> Iterator[None]:
    """StreamsError with the node's name, and with one line of Spark's text, which often has a hundred."""
    from pyspark.errors import PySparkException

    try:
        yield
    except PySparkException as error:
        raise StreamsError(
            f"Spark refuses {type(node).__name__} {node.name}: {first_cause(str(error))}",
            "Look at its expressions, and at the columns of the rows that come to it.",
        ) from error
