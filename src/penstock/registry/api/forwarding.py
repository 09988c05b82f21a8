"""What a change asks before it is made: does another instance lead?"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response


class Forwarder(Protocol):
    async def forward(self, request: Request) -> Response | None:
        """The leader's answer, once this instance knows all that the answer is about; None where this instance leads.

        Raises RegistryError: nobody leads (50004), the leader did not answer (50003).
        """
        ...

    def stamp(self, request: Request, response: Response) -> None:
        """Is called with this instance's own answer to a change: who forwarded it waits for the position in it."""
        ...


class Alone:
    """The forwarder of an instance that has no others beside it."""

    async def forward(self, request: Request) -> Response | None:
        return None

    def stamp(self, request: Request, response: Response) -> None:
        pass


ALONE = Alone()
