"""The parts of the state: the versions of a subject, and the schemas of a context by id and by content."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterator

from penstock.registry.model import Content, StoredSchema
from penstock.registry.records import SchemaKey


class SubjectVersions:
    """All versions of a subject, soft-deleted ones among them, in order."""

    __slots__ = ("_order", "_versions", "highest", "live_count")

    def __init__(self) -> None:
        self._versions: dict[int, StoredSchema] = {}
        self._order: list[int] = []
        self.live_count = 0
        # Of all versions in the log so far: a number is not given again while the subject exists.
        self.highest = 0

    def __len__(self) -> int:
        return len(self._order)

    def get(self, version: int) -> StoredSchema | None:
        return self._versions.get(version)

    def put(self, stored: StoredSchema) -> None:
        old = self._versions.get(stored.version)
        if old is None:
            insort(self._order, stored.version)
            self.highest = max(self.highest, stored.version)
        elif not old.deleted:
            self.live_count -= 1
        if not stored.deleted:
            self.live_count += 1
        self._versions[stored.version] = stored

    def remove(self, version: int) -> StoredSchema | None:
        old = self._versions.pop(version, None)
        if old is None:
            return None
        del self._order[bisect_left(self._order, version)]
        if not old.deleted:
            self.live_count -= 1
        return old

    def newest_first(self, *, deleted: bool = False) -> Iterator[StoredSchema]:
        for version in reversed(self._order):
            stored = self._versions[version]
            if deleted or not stored.deleted:
                yield stored

    def oldest_first(self, *, deleted: bool = False) -> Iterator[StoredSchema]:
        for version in self._order:
            stored = self._versions[version]
            if deleted or not stored.deleted:
                yield stored

    def latest(self, *, deleted: bool = False) -> StoredSchema | None:
        return next(self.newest_first(deleted=deleted), None)


class Named:
    """The content of an id, and the versions that have the id. Most ids have one, so only the second makes a set."""

    __slots__ = ("_first", "_others", "content")

    def __init__(self, content: Content, first: SchemaKey) -> None:
        self.content = content
        self._first: SchemaKey | None = first
        self._others: set[SchemaKey] | None = None

    def add(self, key: SchemaKey) -> None:
        if self._first is None:
            self._first = key
        elif self._first != key:
            if self._others is None:
                self._others = set()
            self._others.add(key)

    def discard(self, key: SchemaKey) -> None:
        if self._first == key:
            self._first = self._others.pop() if self._others else None
        elif self._others is not None:
            self._others.discard(key)

    @property
    def is_unused(self) -> bool:
        return self._first is None

    def users(self) -> list[SchemaKey]:
        """In the order of subjects and versions."""
        first = [] if self._first is None else [self._first]
        return sorted(first + list(self._others or ()))


class ContextSchemas:
    """Subjects and ids of one context."""

    def __init__(self) -> None:
        self.subjects: dict[str, SubjectVersions] = {}
        self._names: list[str] = []
        self._names_are_sorted = True
        self._by_id: dict[int, Named] = {}
        # One id, or in rare cases several: an import chooses its ids.
        self._ids: dict[bytes, int | tuple[int, ...]] = {}

    def names(self) -> list[str]:
        """All subjects, sorted. Not to be changed by the caller."""
        if not self._names_are_sorted:
            # Nearly sorted already, which costs little.
            self._names.sort()
            self._names_are_sorted = True
        return self._names

    def named(self, schema_id: int) -> Named | None:
        return self._by_id.get(schema_id)

    def id_of(self, content: Content) -> int | None:
        """The id of this content. The lowest of several: after compaction the log does not show which came first."""
        ids = self._ids.get(content.key)
        return min(ids) if isinstance(ids, tuple) else ids

    def put(self, stored: StoredSchema) -> StoredSchema | None:
        """Puts the version, and returns the one that it replaces."""
        versions = self.subjects.get(stored.subject)
        if versions is None:
            versions = self.subjects[stored.subject] = SubjectVersions()
            self._add_name(stored.subject)
        old = versions.get(stored.version)
        versions.put(stored)
        key = SchemaKey(stored.subject, stored.version)
        if old is not None and old.id != stored.id:
            self._release(old, key)
        named = self._by_id.get(stored.id)
        if named is None:
            self._by_id[stored.id] = Named(stored.content, key)
            self._add_id(stored.content, stored.id)
        else:
            named.add(key)
        return old

    def remove(self, key: SchemaKey) -> StoredSchema | None:
        versions = self.subjects.get(key.subject)
        old = None if versions is None else versions.remove(key.version)
        if versions is None or old is None:
            return None
        self._release(old, key)
        if not len(versions):
            del self.subjects[key.subject]
            del self._names[bisect_left(self.names(), key.subject)]
        return old

    def has(self, content: Content) -> bool:
        return content.key in self._ids

    def _add_name(self, subject: str) -> None:
        if self._names and subject < self._names[-1]:
            self._names_are_sorted = False
        self._names.append(subject)

    def _add_id(self, content: Content, schema_id: int) -> None:
        key = content.key
        ids = self._ids.get(key)
        if ids is None:
            self._ids[key] = schema_id
        else:
            self._ids[key] = (*(ids if isinstance(ids, tuple) else (ids,)), schema_id)

    def _release(self, old: StoredSchema, key: SchemaKey) -> None:
        named = self._by_id[old.id]
        named.discard(key)
        if not named.is_unused:
            return
        del self._by_id[old.id]
        content = named.content
        ids = self._ids[content.key]
        left = tuple(each for each in ids if each != old.id) if isinstance(ids, tuple) else ()
        if not left:
            del self._ids[content.key]
        else:
            self._ids[content.key] = left if len(left) > 1 else left[0]
