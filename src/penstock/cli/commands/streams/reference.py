"""Which application a command is about: an id, or FILE[:NAME] of the code that makes one."""

from __future__ import annotations

import os
from typing import NamedTuple

from penstock.cli.errors import CliError


class Application(NamedTuple):
    id: str
    stores: tuple[str, ...] = ()  # known where the code is; none: whatever topics there are


def is_file(reference: str) -> bool:
    return reference.partition(":")[0].endswith(".py") or os.sep in reference or ":" in reference


def find_application(reference: str) -> Application:
    """Imports the file, where it is one."""
    if not is_file(reference):
        return Application(reference)
    from penstock.pipelines.errors import PipelineError
    from penstock.pipelines.running.loading import import_module
    from penstock.streams.topology.nodes import Store, Topology

    module_name, _, name = reference.partition(":")
    try:
        module = import_module(module_name)
    except PipelineError as error:
        raise CliError(error.message, error.hint) from None
    made = {
        each: value
        for each, value in vars(module).items()
        if not each.startswith("_") and callable(getattr(value, "topology", None)) and not isinstance(value, type)
    }
    if not name and len(made) == 1:
        name = next(iter(made))
    if name not in made:
        listed = ", ".join(made) or "none"
        raise CliError(f"{module_name} has no application {name!r}", f"It has: {listed}. Say {module_name}:NAME.")
    topology: Topology = made[name].topology()
    stores = tuple(node.store for node in topology.nodes if isinstance(node, Store))
    return Application(topology.application, stores)
