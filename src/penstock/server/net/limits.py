"""Bounds of a connection that are not configuration keys, each with its reason."""

from __future__ import annotations

# One read of the shared buffer. Large enough that pipelined small requests come in with few system calls, small
# enough to stay in L2.
RECEIVE_BUFFER_SIZE = 256 * 1024

# A frame larger than the receive buffer starts with this much memory, whatever size it announces, and grows as bytes
# arrive. 5,000 connections that announce much and send nothing cost 320 MB together.
FIRST_FRAME_ALLOCATION = 64 * 1024

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

# A request larger than this counts among those in memory while it is served (`Backlog`). One that is smaller, and waits
# for long, costs a connection about as much as the connection itself.
LARGE_REQUEST = 64 * 1024
