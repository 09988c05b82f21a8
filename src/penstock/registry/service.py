"""The registry as its API sees it: one asynchronous method for each operation, in families."""

from __future__ import annotations

from dataclasses import dataclass

from penstock.registry.log import Log
from penstock.registry.operations.decision import Decision
from penstock.registry.services.associations import Associations
from penstock.registry.services.compatibility import Compatibility
from penstock.registry.services.contexts import Contexts
from penstock.registry.services.engine import Engine
from penstock.registry.services.schemas import Schemas
from penstock.registry.services.serial_writer import RegistryWriter
from penstock.registry.services.settings import Settings
from penstock.registry.services.subjects import Subjects
from penstock.registry.state import State
from penstock.schemas.compatibility import Level


@dataclass(frozen=True, slots=True)
class ServiceSettings:
    # The level where no config sets one.
    default_level: Level = Level.BACKWARD


class SchemaService:
    """Reads are answered from memory. Writes are decided one at a time, and answered when the log has replayed them."""

    def __init__(self, state: State, log: Log, settings: ServiceSettings | None = None) -> None:
        self.state = state
        self._engine = Engine(state, RegistryWriter(state, log), (settings or ServiceSettings()).default_level)
        self.subjects = Subjects(self._engine)
        self.schemas = Schemas(self._engine)
        self.settings = Settings(self._engine)
        self.compatibility = Compatibility(self._engine)
        self.contexts = Contexts(self._engine)
        self.associations = Associations()

    async def repair(self) -> None:
        """Writes the old values back over records that were not applied. A new leader calls this once it may write.

        Every later write does the same first, so nothing is lost without this call.
        """
        if self.state.overdue():
            await self._engine.writer.submit(lambda _: Decision((), lambda: None))

    def close(self) -> None:
        """Gives the threads back without waiting for their work."""
        self._engine.workers.close()
