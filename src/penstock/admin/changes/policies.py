"""A policy deleted. `changes.configs` makes and changes one: its settings are what it says."""

from __future__ import annotations

from penstock.admin.queries.policies import deletion_of_policy
from penstock.admin.queries.refusals import check
from penstock.client.brokers import Brokers
from penstock.protocol.messages.alter_configs import AlterConfigsResponse


async def delete_policy(brokers: Brokers, name: str) -> None:
    """One that is not there is no error. Raises ApiError."""
    answer: AlterConfigsResponse = await brokers.ask_controller(deletion_of_policy(name), retry=True)
    for row in answer.responses:
        check(row.error_code, row.error_message)
