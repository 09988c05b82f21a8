"""Which failure another try may mend."""

from __future__ import annotations

import pytest

from penstock.client.connection import LoginPutOffError, LoginRefusedError
from penstock.client.connection.frames import ConnectionClosedError
from penstock.client.connection.versions import UnservedApiError
from penstock.client.routes.failures import may_pass
from penstock.client.routes.links import ClientClosedError, NobodyAnswersError, NotSentError
from penstock.protocol.errors import ApiError, ErrorCode


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (ConnectionClosedError("the broker closed the connection"), True),
        (NotSentError("the connection was lost"), True),
        (NobodyAnswersError("no broker answers"), True),
        (TimeoutError("no answer"), True),
        (ConnectionRefusedError("refused"), True),
        (ApiError(ErrorCode.NOT_COORDINATOR), True),
        (ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION), True),
        (LoginPutOffError("the issuer gave no token"), True),
        (LoginRefusedError("wrong password"), False),
        (ClientClosedError("the client was closed"), False),
        (UnservedApiError("JoinGroup"), False),
        (ApiError(ErrorCode.TOPIC_AUTHORIZATION_FAILED), False),
    ],
)
def test_failure_may_pass_when_neither_the_login_nor_the_request_is_the_cause(
    error: OSError | ApiError, expected: bool
) -> None:
    assert may_pass(error) is expected
