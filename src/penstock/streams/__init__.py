"""Streams and tables of topics in Python, run by Spark. The import loads nothing of Spark; a run does."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.core.lazy.lazy_names import lazy_names
from penstock.pipelines.pipeline import Settings
from penstock.streams.app import Streams
from penstock.streams.builder.streams import Cogrouped, GlobalTable, Grouped, GroupedTable, Stream, Table
from penstock.streams.topology.errors import StreamsError
from penstock.streams.topology.formats import json, raw, registry, text
from penstock.streams.topology.windows import hopping, session, sliding, tumbling, within

__all__ = [
    "Cogrouped",
    "GlobalTable",
    "Grouped",
    "GroupedTable",
    "Processor",
    "Settings",
    "Stream",
    "Streams",
    "StreamsError",
    "Table",
    "TopologyTest",
    "hopping",
    "json",
    "list_state",
    "map_state",
    "raw",
    "registry",
    "session",
    "sliding",
    "text",
    "tumbling",
    "value_state",
    "within",
]

# Imported when first used: what needs Spark, and what most applications do not need.
_LATER = {
    "Processor": "penstock.streams.machines.processors",
    "TopologyTest": "penstock.streams.topology_test",
    "list_state": "penstock.streams.machines.processors",
    "map_state": "penstock.streams.machines.processors",
    "value_state": "penstock.streams.machines.processors",
}

if TYPE_CHECKING:
    from penstock.streams.machines.processors import Processor, list_state, map_state, value_state
    from penstock.streams.topology_test import TopologyTest

if not TYPE_CHECKING:
    __getattr__, __dir__ = lazy_names(__name__, _LATER, "penstock.streams")
