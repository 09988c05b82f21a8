"""`python -I -S command_client.py SOCKET ARGUMENTS`: has a command server run `penstock ARGUMENTS` with this process's
directory, environment and standard streams, and ends with the command's exit code. Imports next to nothing."""

from __future__ import annotations

import os
import socket
import sys

with socket.socket(socket.AF_UNIX) as connection:
    connection.connect(sys.argv[1])
    given = [os.getcwd(), str(len(sys.argv) - 2), *sys.argv[2:], *(f"{name}={os.environ[name]}" for name in os.environ)]
    socket.send_fds(connection, [b"\n"], [0, 1, 2])
    connection.sendall("\0".join(given).encode("utf-8", "surrogateescape"))
    connection.shutdown(socket.SHUT_WR)
    answer = connection.recv(1)
if not answer:
    print("the process that ran the command has died", file=sys.stderr)
sys.exit(answer[0] if answer else 70)
