"""What 10,000 ACLs cost a request: its decision kept from the last one, made anew, or none because of a super user.

The requests ask for the metadata of a topic that is not there, one name each, so that a name may be new each time. All
names are allowed by the same ACL of a prefix.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence

from bench.acls import decision_costs, make_acls
from bench.contenders import PENSTOCK, CpuMeter
from bench.errors import BenchError
from bench.loads import MANY_IN_FLIGHT, Figures, Scale
from bench.secured.brokers import LOGIN, PLAIN, SecuredBroker
from bench.wire import metadata_request
from penstock.client.connection import BlockingConnection
from penstock.core.config.keys.authorization import STANDARD_AUTHORIZER
from penstock.protocol.messages.create_acls import AclCreation, CreateAclsRequest

AUTHORIZER = {"authorizer.class.name": STANDARD_AUTHORIZER}
CREATE_ACLS_VERSION = 2
AT_ONCE = 1000
# Of the user that logs in; `make_acls` has an ACL for all names that begin so.
PREFIX = "team7-topic-507"

_numbers = itertools.count()


def add_acls(broker: SecuredBroker) -> None:
    creations = [
        AclCreation(
            resource_type=pattern.type,
            resource_name=pattern.name,
            resource_pattern_type=pattern.pattern,
            principal=entry.principal,
            host=entry.host,
            operation=entry.operation,
            permission_type=entry.permission,
        )
        for pattern, entries in make_acls().items()
        for entry in entries
    ]
    with broker.connect(PLAIN) as connection:
        for start in range(0, len(creations), AT_ONCE):
            request = CreateAclsRequest(creations=creations[start : start + AT_ONCE])
            response = connection.request(request, CREATE_ACLS_VERSION, timeout_s=120)
            if error := next((each.error_code for each in response.results if each.error_code), 0):
                raise BenchError(f"{broker.server.name} does not take an ACL: error {error}")


def measure_rights(broker: SecuredBroker, scale: Scale) -> Figures:
    """Microseconds of the broker's CPU for each request."""
    count = scale.pipelined_requests
    kept = [metadata_request(PREFIX, may_create=False)] * count
    figures = {
        "acl-none": _cost(broker, PLAIN, kept),
        "acl-kept": _cost(broker, LOGIN, kept),
        "acl-fresh": _cost(broker, LOGIN, list(_new_requests(count))),
    }
    if broker.contender is PENSTOCK:
        costs = decision_costs()
        figures |= {"decision-kept": costs.kept_us, "decision-fresh": costs.fresh_us}
    return figures


def _new_requests(count: int) -> Iterator[bytes]:
    for _ in range(count):
        yield metadata_request(f"{PREFIX}-{next(_numbers)}", may_create=False)


def _cost(broker: SecuredBroker, door: str, requests: Sequence[bytes]) -> float:
    """The first tenth warms up; a name among them is not new any more, so that the others are counted alone."""
    meter = CpuMeter()
    counted = requests[len(requests) // 10 :]
    with broker.connect(door) as connection:
        _ask(connection, requests[: len(requests) // 10])
        with meter.running(broker.server):
            _ask(connection, counted)
    return meter.seconds / len(counted) * 1e6


def _ask(connection: BlockingConnection, requests: Sequence[bytes]) -> None:
    for start in range(0, len(requests), MANY_IN_FLIGHT):
        asked = requests[start : start + MANY_IN_FLIGHT]
        connection.send_bytes(b"".join(asked))
        for _ in asked:
            connection.receive_frame()
