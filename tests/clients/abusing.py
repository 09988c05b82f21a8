"""Requests over HTTP as nobody means them, each with names of its own, and how much of it a process holds on to."""

from __future__ import annotations

import json
import random
import socket
from collections.abc import Callable
from contextlib import suppress
from itertools import cycle, islice, pairwise

from penstock.testing.processes import ServerProcess
from proof.hostile.odd_names import RETURNING_ALLOCATOR
from proof.memory import count_open_files, resident_size
from tests.clients.support import eventually

__all__ = ["RETURNING_ALLOCATOR", "growth_of", "rest_requests", "schema_requests"]

Abuse = Callable[[str], bytes]
_PATIENCE_S = 30.0
# What is made on first use is not taken for a leak.
_WARMING = 2
# Connections to brokers that are made on first use.
_MORE_FILES = 20


def _request(method: str, path: str, body: bytes = b"", kind: str = "application/json") -> bytes:
    head = f"{method} {path} HTTP/1.1\r\nHost: x\r\nContent-Type: {kind}\r\nContent-Length: {len(body)}\r\n\r\n"
    return head.encode() + body


def _schema(name: str, schema: str, path: str = "/subjects/{}/versions", kind: str = "AVRO") -> bytes:
    return _request("POST", path.format(name), json.dumps({"schema": schema, "schemaType": kind}).encode())


def _nested(name: str, depth: int) -> str:
    return '{"type":"array","items":' * depth + f'"{name}"' + "}" * depth


def _many_fields(name: str) -> str:
    fields = [{"name": f"f{number}", "type": f"{name}{number}"} for number in range(200)]
    return json.dumps({"type": "record", "name": "r", "fields": fields})


# Each takes a name that no other request has.
schema_requests: tuple[Abuse, ...] = (
    lambda name: _request("POST", f"/subjects/{name}/versions", b'{"schema": "\xff' + name.encode() + b'"}'),
    lambda name: _request("POST", f"/subjects/{name}/versions", b'{"schema": "\\"int\\"", "id": 1e400}'),
    lambda name: _request("POST", f"/subjects/{name}/versions", b'{"a":' * 4_000 + b"1" + b"}" * 4_000),
    lambda name: _request("POST", f"/subjects/{name}/versions", b'{"schema": "\\ud800"}'),
    lambda name: _schema(name, _nested(name, 300)),
    lambda name: _schema(name, _many_fields(name)),
    lambda name: _schema(name, f'{{"type": "object", "$ref": "#/{name}"}}', kind="JSON"),
    lambda name: _schema(name, f"message {'a{message ' * 200} {name}", kind="PROTOBUF"),
    lambda name: _schema(name, f'{{"type":"enum","name":"{name}","symbols":["{name}"]}}', path="/subjects/{}"),
    lambda name: _schema(name, f'"{name}"', path="/compatibility/subjects/{}/versions/latest"),
    lambda name: _request("GET", f"/subjects/{name}{'%C3%BF' * 600}/versions/{name}"),
    lambda name: _request("GET", f"/schemas/ids/{name}?subject={name}&format={name}"),
    lambda name: _request("GET", f"/config/{name}?defaultToGlobal=x") * 40,
    lambda name: _request("PUT", f"/config/{name}", b'{"compatibility": "' + name.encode() * 50 + b'"}'),
    lambda name: _request(name.upper(), f"/{name}"),
)

_JSON = "application/vnd.kafka.json.v2+json"
_AVRO = "application/vnd.kafka.avro.v2+json"
_V2 = "application/vnd.kafka.v2+json"
rest_requests: tuple[Abuse, ...] = (
    lambda name: _request("POST", f"/topics/{name}", b'{"records": [{"value": 1e400}]}', _JSON),
    lambda name: _request("POST", f"/topics/{name}", b'{"records": [{"value": "\xff"}]}', _JSON),
    lambda name: _request("POST", f"/topics/{name}", b'{"a":' * 4_000 + b"1" + b"}" * 4_000, _JSON),
    lambda name: _request("POST", f"/topics/%ff{name}", b'{"records": [{"value": 1}]}', _JSON),
    lambda name: _request("POST", f"/topics/{name * 30}", b'{"records": [{"value": 1}]}', _JSON),
    lambda name: _request(
        "POST",
        f"/topics/{name}",
        json.dumps({"value_schema": _nested(name, 300), "records": [{"value": 1}]}).encode(),
        _AVRO,
    ),
    lambda name: _request(
        "POST",
        f"/topics/{name}",
        json.dumps({"value_schema": _many_fields(name), "records": [{"value": 1}]}).encode(),
        _AVRO,
    ),
    lambda name: _request("POST", f"/topics/{name}", b'{"records": [{"value": 1}]}', f"application/{name}"),
    lambda name: _request("POST", f"/consumers/{name}", b'{"name": "' + name.encode() + b'", "format": "none"}', _V2),
    lambda name: _request("GET", f"/consumers/{name}/instances/{name}/records", kind=_V2),
    lambda name: _request("DELETE", f"/consumers/{name}/instances/{name}", kind=_V2),
    lambda name: _request("GET", f"/topics/{name}/partitions/{name}"),
    lambda name: _request("GET", f"/v3/clusters/{name}/topics/{name}?{name}={name}") * 40,
    lambda name: _request("GET", f"/v3/clusters/{name}{'%C3%BF' * 600}"),
    lambda name: _request(name.upper(), f"/{name}"),
)


def growth_of(process: ServerProcess, requests: tuple[Abuse, ...], count: int, rounds: int) -> list[int]:
    """Bytes that the process holds more after each round of so many requests than before it. `process` has
    RETURNING_ALLOCATOR: what is free is given back."""
    chance = random.Random(0)
    files = count_open_files(process.pid) + _MORE_FILES
    _come(process, requests, len(requests) * _WARMING, chance, files)
    sizes = [resident_size(process.pid)]
    for _ in range(rounds):
        _come(process, requests, count, chance, files)
        sizes.append(resident_size(process.pid))
    return [after - before for before, after in pairwise(sizes)]


def _come(process: ServerProcess, requests: tuple[Abuse, ...], count: int, chance: random.Random, files: int) -> None:
    """A connection each."""
    for request in islice(cycle(requests), count):
        name = f"n{chance.randrange(1 << 60):x}" + "y" * chance.choice((0, 40, 100))
        with socket.create_connection((process.host, process.port), _PATIENCE_S) as connection, suppress(OSError):
            chance.choice(_ENDS)(connection, request(name))
    eventually(lambda: count_open_files(process.pid) <= files, "the last client is gone")


def _hear(connection: socket.socket, request: bytes) -> None:
    connection.sendall(request)
    assert connection.recv(65_536).startswith(b"HTTP/1.1 ")


def _half_close(connection: socket.socket, request: bytes) -> None:
    connection.sendall(request)
    connection.shutdown(socket.SHUT_WR)
    while connection.recv(65_536):
        pass


def _leave(connection: socket.socket, request: bytes) -> None:
    connection.sendall(request)


def _break_off(connection: socket.socket, request: bytes) -> None:
    connection.sendall(request[:-1])


_ENDS = (_hear, _hear, _half_close, _leave, _break_off)
