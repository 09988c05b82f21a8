"""Which application a command is about: an id, or FILE[:NAME] of the code that makes one."""

from __future__ import annotations

import os
from typing import NamedTuple

from penstock.cli.commands.spark_runs import pipeline_errors


class Application(NamedTuple):
    id: str
    stores: tuple[str, ...] = ()  # known where the code is; none: whatever topics there are


def is_file(reference: str) -> bool:
    return reference.partition(":")[0].endswith(".py") or os.sep in reference or ":" in reference


def find_application(reference: str) -> Application:
    """Imports the file, where it is one."""
    from penstock.streams.topology.names import check_application

    with pipeline_errors():
        if not is_file(reference):
            return Application(check_application(reference))
        from penstock.pipelines.runtime.pipeline_loader import load_defined
        from penstock.streams import Streams
        from penstock.streams.topology.nodes import Store

        topology = load_defined(reference, {}, Streams, "application")[0].topology()
        stores = tuple(node.store for node in topology.nodes if isinstance(node, Store))
        return Application(topology.application, stores)
