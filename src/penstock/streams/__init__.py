"""Streams and tables of topics in Python, run by Spark. Importing this costs nothing of Spark; running does."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from penstock.pipelines.pipeline import Settings
from penstock.streams.app import Streams
from penstock.streams.building.streams import Cogrouped, GlobalTable, Grouped, GroupedTable, Stream, Table
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
    "Processor": "penstock.streams.machines.processing",
    "TopologyTest": "penstock.streams.topology_test",
    "list_state": "penstock.streams.machines.processing",
    "map_state": "penstock.streams.machines.processing",
    "value_state": "penstock.streams.machines.processing",
}

if TYPE_CHECKING:
    from penstock.streams.machines.processing import Processor, list_state, map_state, value_state
    from penstock.streams.topology_test import TopologyTest


def __getattr__(name: str) -> Any:
    if name in _LATER:
        import importlib

        return getattr(importlib.import_module(_LATER[name]), name)
    raise AttributeError(f"module 'penstock.streams' has no attribute {name!r}")
