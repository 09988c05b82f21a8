"""The registry as its API sees it: one asynchronous method for each operation, in families."""

from __future__ import annotations

from dataclasses import dataclass

from penstock.registry.log import Log
from penstock.registry.operations.decision import Decision
from penstock.registry.serving.associations import Associations
from penstock.registry.serving.compatibility import Compatibility
from penstock.registry.serving.contexts import Contexts
from penstock.registry.serving.engine import Engine
from penstock.registry.serving.schemas import Schemas
from penstock.registry.serving.settings import Settings
from penstock.registry.serving.subjects import Subjects
from penstock.registry.serving.writing import Writer
from penstock.registry.state import State
from penstock.schemas.compatibility import Level


@dataclass(frozen=True, slots=True)
class ServiceSettings:
    # What counts where no config says otherwise.
    default_level: Level = Level.BACKWARD


class SchemaService:
    """Reads are answered from memory. Writes are decided one at a time, and answered when the log has replayed them."""

    def __init__(self, state: State, log: Log, settings: ServiceSettings | None = None) -> None:
        self.state = state
        self._engine = Engine(state, Writer(state, log), (settings or ServiceSettings()).default_level)
        self.subjects = Subjects(self._engine)
        self.schemas = Schemas(self._engine)
        self.settings = Settings(self._engine)
        self.compatibility = Compatibility(self._engine)
        self.contexts = Contexts(self._engine)
        self.associations = Associations()

    async def repair(self) -> None:
        """Writes the old values back over records that were not applied. A new leader calls this once it may write.

        Every later write does the same first, so nothing is lost if nobody calls this.
        """
        if self.state.overdue():
            await self._engine.writer.submit(lambda _: Decision((), lambda: None))

    def close(self) -> None:
        """Gives the threads back; work that runs in them is not waited for."""
        self._engine.workers.close()
