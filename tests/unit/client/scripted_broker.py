"""A broker on loopback that answers by a script, one connection after the other."""

from __future__ import annotations

import socket
import struct
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

from penstock.protocol.codec import decode, encode
from penstock.protocol.framing import decode_client_id, decode_request_header, encode_response_header
from penstock.protocol.messages.list_groups import ListedGroup, ListGroupsRequest, ListGroupsResponse

# Takes one frame, answers the bytes to send back; None closes the connection.
Script = Callable[[bytes], bytes | None]


def frame(payload: bytes) -> bytes:
    return struct.pack(">i", len(payload)) + payload


def list_groups_answer(request: bytes, group: str = "g") -> bytes:
    header = decode_request_header(request)
    flexible = header.api_version >= ListGroupsRequest.FLEXIBLE_FROM
    _, position = decode_client_id(request, flexible)
    decode(ListGroupsRequest, request, header.api_version, position)
    body = encode(ListGroupsResponse(groups=[ListedGroup(group_id=group)]), header.api_version)
    return frame(encode_response_header(header.correlation_id, flexible) + body)


@contextmanager
def serving(script: Script, *, answers: int = 1_000, connections: int = 1) -> Iterator[int]:
    """The port of a server that runs in a thread of its own and closes a connection after `answers` answers."""
    listener = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        for _ in range(connections):
            serve_one(listener.accept()[0])

    def serve_one(client: socket.socket) -> None:
        with client, suppress(OSError):  # a client that gives up resets the connection
            stream = client.makefile("rb")
            for _ in range(answers):
                prefix = stream.read(4)
                answer = script(stream.read(struct.unpack(">i", prefix)[0])) if prefix else None
                if answer is None:
                    return
                client.sendall(answer)

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    yield listener.getsockname()[1]
    thread.join(10)  # the client has closed by now
    listener.close()
