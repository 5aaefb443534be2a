"""What an open page costs the facade: CPU time a call, with and without somebody who follows as it does.

.venv/bin/python -m pytest -m heavy -s tests/facade/page/test_rate.py
"""

import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from statistics import median

import httpx
import pytest

pytestmark = [
    pytest.mark.heavy,
    pytest.mark.skipif(sys.platform != "linux", reason="reads /proc for what a process used"),
]

ROUNDS, CALLS = 9, 3_000


def used(process: subprocess.Popen[str]) -> float:
    """Return the seconds of CPU time that a process used."""
    with open(f"/proc/{process.pid}/stat", encoding="ascii") as file:
        fields = file.read().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


@contextmanager
def open_page(base: str, token: str) -> Iterator[None]:
    """Ask what an open page asks: the stream of events, and the state once a second."""
    auth, over = {"authorization": f"Bearer {token}"}, threading.Event()

    def follow() -> None:
        url = f"{base}/_ranksim/events?most=400"
        with httpx.stream("GET", url, headers=auth, timeout=600) as events:
            for _ in events.iter_raw():
                if over.is_set():
                    return

    def read() -> None:
        with httpx.Client(headers=auth, timeout=600) as client:
            while not over.wait(1):
                client.get(f"{base}/_ranksim/overview").raise_for_status()

    threads = [threading.Thread(target=one) for one in (follow, read)]
    for one in threads:
        one.start()
    try:
        yield
    finally:
        over.set()
        httpx.get(f"{base}/v1/nothing", timeout=60)  # wakes who follows
        for one in threads:
            one.join()


def calls(base: str, key: str) -> None:
    """Read and write, over one connection."""
    with httpx.Client(base_url=base, headers={"authorization": f"Bearer {key}"}, timeout=600) as client:
        for number in range(CALLS):
            if number % 3 == 0:
                client.post("/v1/domains", json={"host": f"h{number}.example"})
            else:
                client.get("/v1/domains?limit=20")


def test_with_the_page_open_the_facade_keeps_its_rate() -> None:
    command = [sys.executable, "-m", "ranksim", "serve", "--json", "--port", "0", "--plan", "agency"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        said = json.loads(process.stdout.readline())
        base, token = said["base_url"], said["control_token"]
        auth = {"authorization": f"Bearer {token}"}
        httpx.patch(f"{base}/_ranksim/limits", json={"rate": False}, headers=auth).raise_for_status()
        calls(base, said["key"])
        ratios = []
        for number in range(ROUNDS):
            spent = {}
            for followed in (False, True) if number % 2 else (True, False):
                before = used(process)
                if followed:
                    with open_page(base, token):
                        calls(base, said["key"])
                else:
                    calls(base, said["key"])
                spent[followed] = used(process) - before
            ratios.append(spent[False] / spent[True])
        process.terminate()
    told = f"{median(ratios):.3f} of that without ({min(ratios):.3f} to {max(ratios):.3f})"
    print(f"\nrate with the page open: {told}")
    assert median(ratios) >= 0.95
