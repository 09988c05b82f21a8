"""ACLs created and deleted."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import penstock.admin.queries.acls as queries
from penstock.admin.queries.refusals import refusals
from penstock.client.brokers import Brokers
from penstock.protocol.errors import ApiError
from penstock.protocol.messages.create_acls import CreateAclsResponse
from penstock.protocol.messages.delete_acls import DeleteAclsResponse
from penstock.security.acls.filters import AclFilter
from penstock.security.acls.index import Acl


class DeletedAcls(NamedTuple):
    """What each filter deleted, and the filters that were refused, or deleted less than they match."""

    deleted: dict[AclFilter, list[Acl]]
    refused: dict[AclFilter, ApiError]


async def create_acls(brokers: Brokers, acls: Iterable[Acl]) -> dict[Acl, ApiError]:
    """One that is there already is no error."""
    wanted = list(acls)
    answer: CreateAclsResponse = await brokers.ask_controller(queries.create_acls(wanted), retry=True)
    return refusals(zip(wanted, answer.results, strict=True))


async def delete_acls(brokers: Brokers, filters: Iterable[AclFilter]) -> DeletedAcls:
    """All that match one of them. Sent once: a second answer would not name what the first sending deleted."""
    wanted = list(filters)
    answer: DeleteAclsResponse = await brokers.ask_controller(queries.delete_acls(wanted))
    results = list(zip(wanted, answer.filter_results, strict=True))
    refused = refusals((each, row) for each, result in results for row in result.matching_acls) | refusals(results)
    return DeletedAcls({each: queries.read_deleted_acls(result) for each, result in results}, refused)
