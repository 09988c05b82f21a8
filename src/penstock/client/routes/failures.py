"""Which failure of a request another try may mend: the one table for the loops of asyncio clients.

The code of an answer is judged by the table of the protocol (`protocol.errors.is_retriable`). Whether the request may
have been executed is another question (`client.sendings`), and so is who is to be asked next (`routes.answers`).
"""

from __future__ import annotations

from penstock.client.connection import LoginRefusedError
from penstock.client.connection.versions import UnservedApiError
from penstock.client.routes.links import ClientClosedError
from penstock.protocol.errors import ApiError, is_retriable

# The credentials are wrong, the client itself was closed, the broker does not know the request.
_FINAL = (LoginRefusedError, ClientClosedError, UnservedApiError)


def may_pass(error: OSError | ApiError) -> bool:
    if isinstance(error, _FINAL):
        return False
    return isinstance(error, OSError) or is_retriable(error.code)
