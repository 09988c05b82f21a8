"""Operations on contexts."""

from __future__ import annotations

from penstock.registry.model import Page
from penstock.registry.names import check_context
from penstock.registry.operations.deletion import decide_context_deletion
from penstock.registry.operations.lookups import page_of
from penstock.registry.services.engine import Engine

_ALL = Page()


class Contexts:
    """A context is named with its dot (`.context`); surrounding colons are removed."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._state = engine.state

    async def names(self, prefix: str = "", *, page: Page = _ALL) -> list[str]:
        """Contexts that begin with the prefix, sorted; the default context (".") among them."""
        start = prefix.strip(":")
        return page_of([each for each in self._state.context_names() if each.startswith(start)], page)

    async def delete(self, context: str) -> None:
        """Forgets an empty context with its config and mode (42205, 42211)."""
        name = check_context(context)
        await self._engine.writer.submit(lambda _: decide_context_deletion(self._state, name))
