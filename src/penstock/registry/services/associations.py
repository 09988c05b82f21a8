"""Operations on associations of topics with subjects. None are kept: lists are empty, and changes are refused.

Recent serializers request associations first, and use the topic's name as the subject where there are none.
"""

from __future__ import annotations

from collections.abc import Mapping

from penstock.registry.errors import association_not_found, invalid_association


class Associations:
    async def by_resource_name(self, namespace: str, name: str) -> list[Mapping[str, object]]:
        """GET /associations/resources/{namespace}/{name}."""
        return []

    async def by_resource_id(self, resource_id: str) -> list[Mapping[str, object]]:
        """GET /associations/resources/{id}."""
        return []

    async def by_subject(self, subject: str) -> list[Mapping[str, object]]:
        """GET /associations/subjects/{subject}."""
        return []

    async def change(self) -> None:
        """POST, PUT and batches (42212)."""
        raise invalid_association("this registry keeps none; subjects are found by the names of topics")

    async def delete(self, resource_id: str) -> None:
        """DELETE /associations/resources/{id} (40410)."""
        raise association_not_found(f"resource '{resource_id}'")
