"""Bounds of a connection that are not configuration keys, each with its reason."""

from __future__ import annotations

# One read of the shared buffer. Large enough that pipelined small requests come in with few system calls, small
# enough to stay in L2.
RECEIVE_BUFFER_SIZE = 256 * 1024

# A frame larger than the receive buffer starts with this much memory, whatever size it announces, and grows as bytes
# arrive. 5,000 connections that announce much and send nothing cost 320 MB together.
FIRST_FRAME_ALLOCATION = 64 * 1024
# It is less where only small frames are accepted, as before a login: 10,000 clients that send half a token cost 10 MB.
FIRST_FRAME_PART = 512

# How much of a reply is read from its file when the socket takes no more. A slow reader holds one of these in memory.
WRITE_PIECE_SIZE = 128 * 1024

# Records up to this size are read and sent together with what surrounds them in the reply: one write instead of three,
# which also wakes the client once. A 1 KiB record reaches a waiting consumer in 215 us instead of 290.
GATHERED_CHUNK_SIZE = 16 * 1024

# Requests of one connection that may wait behind the one being served before reading stops. Clients keep 5 in flight
# by default.
QUEUED_REQUESTS = 16
# The same in bytes. Requests wait only behind one that waits itself, so this costs no throughput; without it sixteen
# frames of socket.request.max.bytes could wait.
QUEUED_BYTES = 1024 * 1024
# Writes of one connection that may wait at once for their replicas or for the disk. Their records are in the log
# already; what waits takes some 3 KB each. Java's producers send 5 at once, librdkafka's any number.
PENDING_REPLIES = 32

# A receive buffer holds some 20,000 of the smallest requests, which take a second to serve. Other connections get
# their turn after this many, a few milliseconds.
REQUESTS_PER_TURN = 64
# The same for what is sent. A client on the same machine takes this in some 3 ms, and so could hold everybody else up
# for as long as it reads.
BYTES_PER_TURN = 4 * 1024 * 1024

# A half-finished TLS handshake holds 48 KB in OpenSSL, measured. So many at once make 6 MB for each listener; other
# clients wait for their turn, and hold 4 KB each meanwhile, as an idle plain connection does. 10,000 half-finished
# handshakes make 48 MB in all.
HANDSHAKES = 120
# Of these for one address, so that one alone cannot make others wait. Clients that reconnect together from behind one
# address pass at some hundreds a second, since a handshake takes two round trips.
HANDSHAKES_PER_ADDRESS = 60
# For the handshake, and before it for the wait; a client on another continent needs a second.
HANDSHAKE_TIMEOUT_MS = 10_000
# For the handshake while other clients wait for a place. Two round trips around the world take half a second.
PRESSED_HANDSHAKE_TIMEOUT_MS = 2_000
# What a client may send before the handshake is over. Ten certificates of 4 KB, and more, fit.
HANDSHAKE_BYTES = 64 * 1024
# One read of a handshake: a client's first message mostly has 500 bytes.
HANDSHAKE_READ_SIZE = 4 * 1024
# The largest piece that goes through OpenSSL at once: a record of TLS. Its buffers keep the size that they once had,
# so larger pieces would stay with idle connections.
TLS_PIECE_SIZE = 16 * 1024
TLS_RECORD_SIZE = TLS_PIECE_SIZE + 256
# A request larger than this counts among those in memory while it is served (`Backlog`). One that is smaller, and waits
# for long, costs a connection about as much as the connection itself.
LARGE_REQUEST = 64 * 1024
# Requests in memory of all clients of a listener that have not logged in yet. A token is mostly below 2 KB, one of
# Kerberos 64 KB at most, and counts only while a part of it is missing.
STRANGERS_BYTES = 32 * 1024 * 1024
# What one of them may hold when that is full.
STRANGER_BYTES = 4 * 1024
# Connections whose TLS handshake is over and whose client has not logged in yet, for each listener. Each holds 21 KB.
# A login takes some round trips, and handshakes come at a thousand a second at most: so many are in between at once
# only when somebody does not go on.
ENCRYPTED_STRANGERS = 1_000
# For the login when there are more. A client in another continent needs half a second.
PRESSED_LOGIN_TIMEOUT_MS = 1_000
