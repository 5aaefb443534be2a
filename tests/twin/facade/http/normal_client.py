"""A good client of a server in another process: asks without end, and tells how long each answer took.

    python normal_client.py PORT KEY PID

Writes a line for each request, in µs: the wait by the wall clock; the processor time that the server, PID,
spent meanwhile in all of its threads; and the wait without what the machine added to it: the time in which a
thread of either could have run, and another program had the processor (Linux tells it in `schedstat`).
"""

import os
import socket
import sys
import time
from contextlib import suppress

PAUSE = 0.01
"""Seconds from an answer to the next request."""


def worked(pid: int) -> int:
    """Nanoseconds of processor time that a process has spent: its clock by Linux's numbering."""
    return time.clock_gettime_ns((~pid << 3) | 2)


def kept_waiting(pid: int) -> int:
    """Nanoseconds that the threads of a process could have run, and did not for want of a processor."""
    waited = 0
    for thread in os.listdir(f"/proc/{pid}/task"):
        with suppress(OSError), open(f"/proc/{pid}/task/{thread}/schedstat", encoding="ascii") as file:
            waited += int(file.read().split()[1])
    return waited


def ask(port: int, key: str, server: int) -> None:
    """Ask until something else than 200 comes back; that is written instead of a line, and it ends."""
    request = f"GET /v1/account HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {key}\r\n\r\n".encode()
    with socket.create_connection(("127.0.0.1", port), timeout=30) as connection:
        while True:
            work = worked(server)
            machine = kept_waiting(server) + kept_waiting(os.getpid())
            began = time.monotonic_ns()
            connection.sendall(request)
            answer = connection.recv(65_536)
            wall = time.monotonic_ns() - began
            work = worked(server) - work
            machine = kept_waiting(server) + kept_waiting(os.getpid()) - machine
            if not answer.startswith(b"HTTP/1.1 200 "):
                print(repr(answer), flush=True)
                return
            print(wall // 1_000, work // 1_000, max(0, wall - machine) // 1_000, flush=True)
            time.sleep(PAUSE)


if __name__ == "__main__":
    ask(int(sys.argv[1]), sys.argv[2], int(sys.argv[3]))
