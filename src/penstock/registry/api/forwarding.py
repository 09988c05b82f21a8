"""Forwards a change to the instance that leads, if another instance does."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response


class Forwarder(Protocol):
    async def forward(self, request: Request) -> Response | None:
        """The leader's answer, once this instance knows everything in the answer; None where this instance leads.

        Raises RegistryError: no instance leads (50004), the leader did not answer (50003).
        """
        ...

    def stamp(self, request: Request, response: Response) -> None:
        """Called with this instance's own answer to a change: the forwarding instance waits for the position in it."""
        ...


class Alone:
    """The forwarder of a single instance."""

    async def forward(self, request: Request) -> Response | None:
        return None

    def stamp(self, request: Request, response: Response) -> None:
        pass


ALONE = Alone()
