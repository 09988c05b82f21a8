"""Bounds of a connection that are not configuration keys, each with its reason."""

# One read of the shared buffer. Large enough that pipelined small requests come in with few system calls, small
# enough to stay in L2.
from __future__ import annotations

RECEIVE_BUFFER_SIZE = 256 * 1024

# A frame larger than the receive buffer starts with this much memory, whatever size it announces, and grows as bytes
# arrive.
FIRST_FRAME_ALLOCATION = 256 * 1024

# How much of a reply is read from its file and handed to the socket at once. A slow reader holds about two of these
# in memory.
WRITE_PIECE_SIZE = 512 * 1024

# Requests of one connection that may wait behind the one being served before reading stops. Clients keep 5 in flight
# by default.
QUEUED_REQUESTS = 16
