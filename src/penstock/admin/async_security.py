"""Who may do what, who may log in, and how much of a broker a client may have: ACLs, users, tokens and quotas."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

import penstock.admin.changes.acls as acl_changes
import penstock.admin.changes.quotas as quota_changes
import penstock.admin.changes.tokens as token_changes
import penstock.admin.changes.users as user_changes
from penstock.admin.changes.acls import DeletedAcls
from penstock.admin.changes.policies import delete_policy
from penstock.admin.changes.users import Credential, NewPassword
from penstock.admin.look import Look
from penstock.admin.names import list_names, list_names_if_any
from penstock.admin.queries.acls import describe_acls, read_acls
from penstock.admin.queries.configs import read_configs
from penstock.admin.queries.policies import Policies, list_policies, read_policies
from penstock.admin.queries.quotas import Quotas, describe_quotas, read_quotas
from penstock.admin.queries.refusals import Refusals, check
from penstock.admin.queries.tokens import describe_tokens, read_tokens
from penstock.admin.queries.topics import read_brokers
from penstock.admin.queries.users import describe_users, read_users
from penstock.admin.state.configs import ConfigPlace
from penstock.admin.state.parts import Partial
from penstock.admin.state.quotas import QuotaEntity
from penstock.admin.state.tokens import TokenState
from penstock.admin.state.users import UserState
from penstock.client.brokers import Brokers
from penstock.protocol.errors import ApiError
from penstock.protocol.messages.describe_acls import DescribeAclsResponse
from penstock.security.acls.filters import AclFilter
from penstock.security.acls.index import Acl
from penstock.security.quotas.alterations import Component

EVERY_ACL = AclFilter()
# As long as the brokers allow.
LONGEST_MS = -1
# A negative period ends a token at once.
AT_ONCE_MS = -1


class AsyncSecurity:
    """Raises what `AsyncAdmin` raises."""

    def __init__(self, brokers: Brokers, timeout_s: float) -> None:
        self._brokers = brokers
        self._timeout_s = timeout_s

    # ------------------------------------------------------------------------------------ ACLs

    async def acls(self, wanted: AclFilter = EVERY_ACL) -> list[Acl]:
        """Those that match, in order. ApiError SECURITY_DISABLED where the brokers have no authorizer."""
        answer: DescribeAclsResponse = await self._look().ask_any(describe_acls(wanted))
        check(answer.error_code, answer.error_message)
        return read_acls(answer)

    async def create_acls(self, acls: Iterable[Acl]) -> dict[Acl, ApiError]:
        """One that is there already is no error."""
        return await acl_changes.create_acls(self._brokers, acls)

    async def delete_acls(self, filters: Iterable[AclFilter]) -> DeletedAcls:
        """All that match one of them."""
        return await acl_changes.delete_acls(self._brokers, filters)

    # ------------------------------------------------------------------------------------ policies

    async def policies(self) -> Partial[Policies]:
        """The settings of each policy on tags, by its name. `AsyncAdmin.alter_configs` of `ConfigPlace.policy` makes
        and changes one. ApiError UNSUPPORTED_VERSION where the brokers are not Penstock's.
        """
        look = self._look()
        places = [ConfigPlace.policy(name) for name in await list_policies(look)]
        found, failures = await read_configs(look, places, None, read_brokers(await look.metadata([])))
        return Partial(read_policies(found), failures)

    async def delete_policy(self, name: str) -> None:
        """One that is not there is no error."""
        await delete_policy(self._brokers, name)

    # ------------------------------------------------------------------------------------ users

    async def users(self, names: Collection[str] | None = None) -> Partial[dict[str, UserState]]:
        """These users, or all that have a password. One without is among the failures."""
        return read_users(await self._look().ask_any(describe_users(list_names_if_any(names))))

    async def set_passwords(self, passwords: Iterable[NewPassword]) -> Refusals:
        """By user. What is sent is salted: no broker gets the password."""
        return await user_changes.set_passwords(self._brokers, passwords)

    async def delete_passwords(self, credentials: Iterable[Credential]) -> Refusals:
        """By user. A password that is not there is refused."""
        return await user_changes.delete_passwords(self._brokers, credentials)

    # ------------------------------------------------------------------------------------ quotas

    async def quotas(self, components: Iterable[Component] = (), *, is_strict: bool = False) -> Quotas:
        """Of the entities that match every component, or of all. `is_strict` leaves out entities that have a type which
        no component names.
        """
        return read_quotas(await self._look().ask_any(describe_quotas(components, is_strict=is_strict)))

    async def alter_quotas(
        self, values: Mapping[QuotaEntity, Mapping[str, float | None]], *, only_check: bool = False
    ) -> dict[QuotaEntity, ApiError]:
        """The new values; None takes a quota away. What is not named stays."""
        return await quota_changes.alter_quotas(self._brokers, values, only_check=only_check)

    # ------------------------------------------------------------------------------------ tokens

    async def tokens(self, owners: Iterable[str] | None = None) -> dict[str, TokenState]:
        """By id: those of these owners (`User:alice`), or all, as far as the caller may see them."""
        return read_tokens(await self._look().ask_any(describe_tokens(list_names_if_any(owners))))

    async def create_token(
        self, owner: str | None = None, *, renewers: Sequence[str] = (), max_lifetime_ms: int = LONGEST_MS
    ) -> TokenState:
        """For the caller, or for another owner. A token whose answer was lost is not made anew: OSError says that what
        became of the request is unknown.
        """
        return await token_changes.create_token(self._brokers, owner, list_names(renewers), max_lifetime_ms)

    async def renew_token(self, hmac: bytes, period_ms: int = LONGEST_MS) -> int:
        """When the token expires from now on, in ms since 1970."""
        return await token_changes.renew_token(self._brokers, hmac, period_ms)

    async def expire_token(self, hmac: bytes, period_ms: int = AT_ONCE_MS) -> int:
        """When the token expires from now on, in ms since 1970."""
        return await token_changes.expire_token(self._brokers, hmac, period_ms)

    def _look(self) -> Look:
        return Look(self._brokers, self._timeout_s)
