"""The interface of the metadata store: a small tree of nodes with versions, after ZooKeeper's model.

One interface, several stores behind it: memory, SQLite for a standalone broker, ZooKeeper for clusters. All pass the
same contract tests. They agree on these rules:

- A path is `/` or `/name/name`. A node has bytes and a version: 0 when created, one more with every change. Its parent
  must exist, and a node with children cannot be deleted.
- An ephemeral node is deleted with the session that made it, however that ends, and cannot have children.
- A sequence node gets ten digits appended to its path, always larger than those of earlier siblings.
- `transaction` does everything or nothing. When a call returns, its writes survive a crash of the process or the
  machine (not in memory, of course).
- A watch reports that something changed, without the change: several changes may come as one call, so its owner reads
  again. After a lost connection every watcher is called, because changes may have been missed.

Ephemeral nodes belong to a session. Its connection may be lost and come back:

- While the connection is lost the session is SUSPENDED: this side does not know whether the server has ended it. Calls
  are refused with UNAVAILABLE and are not made.
- A change whose answer was lost with the connection fails with OUTCOME_UNKNOWN: the change may be made or not. A read
  behind a `sync`, after the session is CONNECTED again, shows the outcome. A read fails with UNAVAILABLE.
- The client learns that a session has ENDED only when it reaches the server again. So the owner of a right that depends
  on a session gives the right up by its own clock, from `last_contact` on. A new session begins by itself. Calls
  between the two are refused with SESSION_ENDED and are not made.
"""

from __future__ import annotations

import enum
import re
from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol

from penstock.core.limits import MAX_STORE_PATH_LENGTH, MAX_STORE_VALUE_BYTES

ANY_VERSION = None
FIRST_VERSION = 0
# Headers, flags, lengths and the access list of one operation in ZooKeeper's protocol: at most 62 bytes with the lists
# that we give, without the part of the path that a store puts in front.
_OPERATION_OVERHEAD = 128
# The characters that ZooKeeper refuses in a path [PathUtils.java]: control characters, surrogates (so also every
# character that UTF-16 writes as a pair), private use, and specials.
_REFUSED_CHARACTER = re.compile("[\x00-\x1f\x7f-\x9f\ud800-\uf8ff\ufff0-\uffff\U00010000-\U0010ffff]")


class StoreErrorKind(enum.Enum):
    NO_NODE = "there is no such node"
    NODE_EXISTS = "the node exists already"
    BAD_VERSION = "the node has changed in the meantime"
    NOT_EMPTY = "the node has children"
    NO_CHILDREN_FOR_EPHEMERALS = "an ephemeral node cannot have children"
    BAD_PATH = "the path is malformed"
    TOO_LARGE = "the value is larger than a node may be"
    CLOSED = "the store is closed"
    IN_USE = "in use by another broker; stop that one, or give this one a data directory of its own"
    CORRUPT = "the store's file is damaged"
    NOT_WRITABLE = "the store's file cannot be opened or written"
    UNAVAILABLE = "the store cannot be reached"
    OUTCOME_UNKNOWN = "the connection was lost before the answer came; the change may be made or not"
    SESSION_ENDED = "the session has ended, and its ephemeral nodes are gone"


class SessionState(enum.Enum):
    CONNECTED = "connected"
    SUSPENDED = "suspended"  # not connected; whether the session lives is unknown
    ENDED = "ended"


class StoreError(Exception):
    def __init__(self, kind: StoreErrorKind, path: str, detail: str = "", *, is_refusal: bool = False) -> None:
        """`is_refusal`: the store answers, and does not let us use this node. Other nodes may be allowed."""
        super().__init__(f"{path}: {detail or kind.value}")
        self.kind = kind
        self.path = path
        self.is_refusal = is_refusal


class Node(NamedTuple):
    data: bytes
    version: int
    owner: str | None = None  # the session of an ephemeral node


class TransactionLimit(NamedTuple):
    """The size limit of one transaction. Its bytes are those of `transaction_size`.

    The limit on its value bounds a change that is alone with its fence: a value that fits a node can be written.
    """

    size: int
    operation_count: int


class Create(NamedTuple):
    path: str
    data: bytes = b""
    ephemeral: bool = False
    sequence: bool = False


class CompareAndSet(NamedTuple):
    path: str
    data: bytes
    expected_version: int | None = ANY_VERSION


class Delete(NamedTuple):
    path: str
    expected_version: int | None = ANY_VERSION


class Check(NamedTuple):
    """The transaction goes through only if the node has this version."""

    path: str
    expected_version: int


Operation = Create | CompareAndSet | Delete | Check
# The results of a transaction's operations: the created path, the new version, or nothing.
Result = str | int | None
Watcher = Callable[[str], None]
SessionListener = Callable[[SessionState], None]


class Store(Protocol):
    @property
    def session_id(self) -> str:
        """Changes when a new session begins. Without a session, the id of the last session."""

    @property
    def session_state(self) -> SessionState: ...

    @property
    def last_contact(self) -> float:
        """The loop's time at which the newest answered request was sent.

        Not the time of the answer: an answer may have waited in a buffer while this process was paused, and the server
        counts a session's time from the request on.
        """

    @property
    def session_timeout_s(self) -> float:
        """After this time without contact the session may have ended. Infinite where a session cannot end by itself."""

    @property
    def transaction_limit(self) -> TransactionLimit | None:
        """None: no limit but that of a single value."""

    def on_session(self, listener: SessionListener) -> Callable[[], None]:
        """Calls `listener(state)` in the event loop at each change. ENDED is followed by CONNECTED when a new session
        has begun. The close of the store makes no call. Returns a function that ends the calls.
        """

    async def sync(self, path: str) -> None:
        """When it returns, reads see all writes of any client from before the call."""

    async def read(self, path: str) -> Node | None: ...

    async def read_many(self, paths: Sequence[str]) -> list[Node | None]:
        """Like `read` for each path, in one exchange where the store can."""

    async def children(self, path: str) -> list[str]:
        """The names, not paths, of a node's children, sorted. NO_NODE if the node does not exist."""

    async def create(self, path: str, data: bytes = b"", *, ephemeral: bool = False, sequence: bool = False) -> str:
        """Returns the path, which for a sequence node is longer than the given path."""

    async def ensure_path(self, path: str) -> None:
        """Creates the node and its parents, empty, where they are missing."""

    async def compare_and_set(self, path: str, data: bytes, expected_version: int | None) -> int:
        """Returns the new version. An expected version of None overwrites any content."""

    async def delete(self, path: str, expected_version: int | None = ANY_VERSION) -> None: ...

    async def transaction(self, operations: Sequence[Operation]) -> Sequence[Result]: ...

    def watch(self, path: str, watcher: Watcher, *, children: bool = True) -> Callable[[], None]:
        """Calls `watcher(path)` in the event loop after the node was created, changed or deleted, or a child of it was
        created or deleted. Returns a function that ends the watch.

        Without `children` the watcher need not be called for children: ZooKeeper reports them only to a client that
        reads the list of their names, which is long for some nodes.
        """

    async def close(self) -> None:
        """Ends the session: ephemeral nodes are deleted. A second call does nothing."""


def check_path(path: str) -> None:
    if path == "/":
        return
    names = path.split("/")
    well_formed = names[0] == "" and len(names) > 1 and all(name not in ("", ".", "..") for name in names[1:])
    if not well_formed or _REFUSED_CHARACTER.search(path) or len(path) > MAX_STORE_PATH_LENGTH:
        raise StoreError(StoreErrorKind.BAD_PATH, path)


def check_operation(operation: Operation) -> None:
    check_path(operation.path)
    if is_too_large(operation):
        assert isinstance(operation, Create | CompareAndSet)
        detail = f"the node would have {len(operation.data)} bytes, where {MAX_STORE_VALUE_BYTES} are the most"
        raise StoreError(StoreErrorKind.TOO_LARGE, operation.path, detail)
    if operation.path == "/" and isinstance(operation, Create):
        raise StoreError(StoreErrorKind.NODE_EXISTS, "/")
    if operation.path == "/" and isinstance(operation, Delete):
        raise StoreError(StoreErrorKind.BAD_PATH, "/", "the root cannot be deleted")


def is_too_large(operation: Operation) -> bool:
    """Whether no node of any store can hold the value."""
    return isinstance(operation, Create | CompareAndSet) and len(operation.data) > MAX_STORE_VALUE_BYTES


def transaction_size(operations: Sequence[Operation]) -> int:
    """About the size of the operations in ZooKeeper's protocol; never less."""
    data = sum(len(each.data) for each in operations if isinstance(each, Create | CompareAndSet))
    return data + sum(len(each.path.encode()) + _OPERATION_OVERHEAD for each in operations)


def check_transaction(operations: Sequence[Operation], limit: TransactionLimit | None) -> None:
    if limit is None or is_single_change(operations):
        return
    size = transaction_size(operations)
    if size > limit.size or len(operations) > limit.operation_count:
        detail = (
            f"a transaction of {len(operations)} operations and {size} bytes, "
            f"where {limit.operation_count} and {limit.size} are the most"
        )
        raise StoreError(StoreErrorKind.TOO_LARGE, operations[0].path, detail)


def is_single_change(operations: Sequence[Operation]) -> bool:
    """One change and at most one fence. The limit on a value leaves room for the names of both in a request."""
    return len(operations) <= 1 or (len(operations) == 2 and isinstance(operations[0], Check))


def parent_of(path: str) -> str:
    return path.rpartition("/")[0] or "/"


def path_and_parents(path: str) -> list[str]:
    """`/a`, `/a/b` and `/a/b/c` for `/a/b/c`; nothing for the root, which is always there."""
    names = path.split("/")[1:]
    return [] if path == "/" else ["/" + "/".join(names[: count + 1]) for count in range(len(names))]


def sequence_path(path: str, number: int) -> str:
    return f"{path}{number:010d}"


class Watches:
    """The watches of a store in this process: the watchers of each path."""

    def __init__(self) -> None:
        self._watchers: dict[str, dict[object, Watcher]] = {}
        self._of_children: set[str] = set()

    def add(self, path: str, watcher: Watcher, *, children: bool = True) -> Callable[[], None]:
        check_path(path)
        token = object()
        self._watchers.setdefault(path, {})[token] = watcher
        if children:
            self._of_children.add(path)

        def remove() -> None:
            watchers = self._watchers.get(path, {})
            watchers.pop(token, None)
            if not watchers:
                self._watchers.pop(path, None)
                self._of_children.discard(path)

        return remove

    def are_of_children(self, path: str) -> bool:
        """Whether a watcher of the path wants calls for its children."""
        return path in self._of_children

    @property
    def paths(self) -> list[str]:
        return sorted(self._watchers)

    def tell_all(self) -> None:
        self.tell(set(self._watchers))

    def tell(self, paths: set[str]) -> None:
        """`paths` are the changed paths: the nodes themselves and the parents of created and deleted nodes."""
        for path in sorted(paths & self._watchers.keys()):
            for watcher in list(self._watchers.get(path, {}).values()):
                watcher(path)


class SessionListeners:
    """The listeners to the session's state, in the order of their registration."""

    def __init__(self) -> None:
        self._listeners: dict[object, SessionListener] = {}

    def add(self, listener: SessionListener) -> Callable[[], None]:
        token = object()
        self._listeners[token] = listener

        def remove() -> None:
            self._listeners.pop(token, None)

        return remove

    def tell(self, state: SessionState) -> None:
        for listener in list(self._listeners.values()):
            listener(state)
