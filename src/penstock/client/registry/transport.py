"""Questions to one of several registries over HTTP. Blocks: on an event loop it is for a thread. For several threads.

Rules:
- Every question is bounded in time as a whole, and every answer in size.
- Connections are kept for the next question. A kept connection may have been closed in the meantime, so a question that
  must not be asked twice gets a new one.
- The registry that answered last is asked first. The next one is asked when a registry cannot be reached, and also
  after a 5xx where asking twice changes nothing. Then there are two more rounds, with a pause in between.
- No redirect is followed and no proxy is asked: credentials go where the settings say.
"""

from __future__ import annotations

import http.client
import json
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple
from urllib.parse import quote, urlencode

from penstock.client.registry.errors import RegistryAnswerError, RegistryUnreachableError
from penstock.client.registry.settings import RegistrySettings, RegistryUrl
from penstock.client.retries import Outlook, Retrying, RetryPolicy
from penstock.core.sockets.socket_deadline import SocketDeadline

# A list of ten thousands of subjects, or a schema of a megabyte with its references.
_MAX_ANSWER_BYTES = 32 << 20
# One for each of the threads that ask at the same time, within reason.
_MOST_KEPT = 8
_RETRIES = RetryPolicy(patience_s=0, first_pause_s=0.1, longest_pause_s=1.0, attempts=3)
_TYPE = "application/vnd.schemaregistry.v1+json"
_ACCEPT = f"{_TYPE}, application/vnd.schemaregistry+json, application/json"
_LONGEST_MESSAGE = 2_000

Query = Mapping[str, str | int | bool | None]


class Question(NamedTuple):
    method: str
    path: str
    body: bytes | None
    # Whether it may be asked again when nobody knows what became of it.
    is_repeatable: bool


class _Answer(NamedTuple):
    status: int
    body: bytes


class _NotAskedError(Exception):
    """The question was not heard by anybody."""


class _LostError(Exception):
    """The question may have been heard; the answer was not."""


def path_of(*parts: str | int) -> str:
    """A path in which each part is quoted: subjects have slashes, colons and everything else."""
    return "".join("/" + quote(str(part), safe="") for part in parts)


def _with_query(path: str, query: Query) -> str:
    given = {
        name: str(value).lower() if isinstance(value, bool) else str(value)
        for name, value in query.items()
        if value is not None and value is not False
    }
    return path + ("?" + urlencode(given) if given else "")


@dataclass(slots=True)
class _Kept:
    connection: http.client.HTTPConnection
    url: RegistryUrl


class RegistryTransport:
    def __init__(
        self,
        settings: RegistrySettings,
        *,
        retries: RetryPolicy = _RETRIES,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._settings = settings
        self._retries = retries
        self._clock = clock
        self._sleep = sleep
        self._kept: list[_Kept] = []
        self._first = 0  # the position of the registry that answered last
        self._is_closed = False
        self._lock = threading.Lock()

    def get(self, path: str, query: Query | None = None) -> Any:
        return self._ask(Question("GET", _with_query(path, query or {}), None, is_repeatable=True))

    def post(self, path: str, body: Any, query: Query | None = None) -> Any:
        """Of what gives the same answer when it is asked twice, as all that a client posts does."""
        return self._ask(Question("POST", _with_query(path, query or {}), _encoded(body), is_repeatable=True))

    def put(self, path: str, body: Any, query: Query | None = None) -> Any:
        return self._ask(Question("PUT", _with_query(path, query or {}), _encoded(body), is_repeatable=True))

    def delete(self, path: str, query: Query | None = None) -> Any:
        """Asked once: the second time the answer would be that there is nothing to delete."""
        return self._ask(Question("DELETE", _with_query(path, query or {}), None, is_repeatable=False))

    def close(self) -> None:
        """Questions under way end as they would have; their connections are not kept."""
        with self._lock:
            self._is_closed = True
            kept, self._kept = self._kept, []
        for each in kept:
            each.connection.close()

    def _ask(self, question: Question) -> Any:
        retrying = Retrying(self._retries, self._clock, self._sleep)
        answer = retrying.run(
            lambda: self._ask_any(question), (RegistryUnreachableError, RegistryAnswerError), _outlook_of(question)
        )
        return _decoded(answer)

    def _ask_any(self, question: Question) -> _Answer:
        """Each registry once, the one that answered last first."""
        urls, first = self._settings.urls, self._first
        failures: list[str] = []
        refused: _Answer | None = None
        for step in range(len(urls)):
            position = (first + step) % len(urls)
            url = urls[position]
            try:
                answer = self._ask_one(url, question)
            except _NotAskedError as error:
                failures.append(f"{url} ({error})")
                continue
            except _LostError as error:
                failures.append(f"{url} ({error})")
                if question.is_repeatable:
                    continue
                break
            if answer.status < 500 or not question.is_repeatable:
                self._first = position
                return _checked(answer)
            refused = answer
        if refused is not None:
            return _checked(refused)
        raise RegistryUnreachableError(f"no schema registry answers: {', '.join(failures)}")

    def _ask_one(self, url: RegistryUrl, question: Question) -> _Answer:
        deadline = SocketDeadline(self._settings.timeout_s)
        kept = self._take(url) if question.is_repeatable else None
        if kept is not None:
            try:
                return self._exchange(kept, question, deadline)
            except _LostError:
                pass  # closed by the other side while nobody used it
            except _NotAskedError:
                pass
        return self._exchange(self._open(url, deadline), question, deadline)

    def _take(self, url: RegistryUrl) -> _Kept | None:
        with self._lock:
            for position in reversed(range(len(self._kept))):
                if self._kept[position].url == url:
                    return self._kept.pop(position)
        return None

    def _give_back(self, kept: _Kept) -> None:
        with self._lock:
            if not self._is_closed and len(self._kept) < _MOST_KEPT:
                self._kept.append(kept)
                return
        kept.connection.close()

    def _open(self, url: RegistryUrl, deadline: SocketDeadline) -> _Kept:
        connection = http.client.HTTPConnection(url.host, url.port)
        try:
            sock = deadline.connect(url.host, url.port)
        except OSError as error:
            raise _NotAskedError(_reason(error)) from None
        connection.sock = sock
        if url.scheme == "https":
            assert self._settings.tls is not None
            try:
                secured = self._settings.tls.wrap_socket(sock, server_hostname=url.host, do_handshake_on_connect=False)
                connection.sock = sock = secured
                secured.settimeout(deadline.left_s())
                with deadline.guarding(secured):
                    secured.do_handshake()
            except OSError as error:
                sock.close()
                raise _NotAskedError(_reason(error)) from None
        return _Kept(connection, url)

    def _exchange(self, kept: _Kept, question: Question, deadline: SocketDeadline) -> _Answer:
        connection, sock = kept.connection, kept.connection.sock
        is_fine = False
        try:
            left_s = deadline.left_s()
            sock.settimeout(left_s)
            with deadline.guarding(sock):
                connection.request(question.method, kept.url.path + question.path, question.body, self._headers())
                response = connection.getresponse()
                body = response.read(_MAX_ANSWER_BYTES + 1)
                if response.length and len(body) <= _MAX_ANSWER_BYTES:
                    raise _LostError("the answer ends too early")
                is_fine = response.isclosed() and connection.sock is not None
        except TimeoutError:
            raise _LostError("no answer in time") from None
        except (OSError, http.client.HTTPException, ValueError) as error:
            # The deadline shuts the socket down, and that looks as if the other side had.
            raise _LostError("no answer in time" if deadline.is_over else _reason(error)) from None
        finally:
            if not is_fine:
                connection.close()
        if len(body) > _MAX_ANSWER_BYTES:
            raise RegistryAnswerError(response.status, response.status, f"more than {_MAX_ANSWER_BYTES} bytes")
        if is_fine:
            self._give_back(kept)
        return _Answer(response.status, body)

    def _headers(self) -> dict[str, str]:
        headers = {"Accept": _ACCEPT, "Content-Type": _TYPE}
        if self._settings.authorization is not None:
            headers["Authorization"] = self._settings.authorization
        return headers


def _outlook_of(question: Question) -> Callable[[Exception], Outlook]:
    def judge(error: Exception) -> Outlook:
        if not question.is_repeatable:
            return Outlook.FINAL
        passes = isinstance(error, RegistryUnreachableError) or (
            isinstance(error, RegistryAnswerError) and error.status in (429, 500, 502, 503, 504)
        )
        return Outlook.DOUBTFUL if passes else Outlook.FINAL

    return judge


def _encoded(body: Any) -> bytes:
    return json.dumps(body, ensure_ascii=False).encode("utf-8", "surrogatepass")


def _reason(error: Exception) -> str:
    """Without what was sent or read."""
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    return getattr(error, "reason", None) or type(error).__name__


def _checked(answer: _Answer) -> _Answer:
    if 200 <= answer.status < 300:
        return answer
    code, message = answer.status, ""
    try:
        document = json.loads(answer.body)
        code, message = int(document["error_code"]), str(document["message"])
    except (ValueError, KeyError, TypeError, RecursionError):
        pass
    raise RegistryAnswerError(
        answer.status, code, message[:_LONGEST_MESSAGE] or f"the registry answers with status {answer.status}"
    )


def _decoded(answer: _Answer) -> Any:
    if not answer.body:
        return None
    try:
        return json.loads(answer.body)
    except (ValueError, RecursionError):
        raise RegistryAnswerError(answer.status, answer.status, "the answer is no JSON: is this a registry?") from None
