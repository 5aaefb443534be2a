"""What an open page, and lines on a terminal, cost the facade: CPU time a call, and memory after an hour.

.venv/bin/python -m pytest -m heavy -s tests/twin/facade/page/test_rate.py
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


@contextmanager
def serving(*flags: str) -> Iterator[tuple[subprocess.Popen[str], str, str, str]]:
    """Serve without rate limits: the process, where it is, the control token and a key."""
    command = [sys.executable, "-m", "ranksim", "serve", "--json", "--port", "0", "--plan", "agency", *flags]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        said = json.loads(process.stdout.readline())
        drain = threading.Thread(target=process.stdout.read)  # or lines fill the pipe
        drain.start()
        auth = {"authorization": f"Bearer {said['control_token']}"}
        url = f"{said['base_url']}/_ranksim/limits"
        httpx.patch(url, json={"rate": False}, headers=auth, timeout=60).raise_for_status()
        yield process, said["base_url"], said["control_token"], said["key"]
        process.terminate()
        drain.join()


def test_with_the_page_open_the_facade_keeps_its_rate() -> None:
    with serving() as (process, base, token, key):
        calls(base, key)
        ratios = []
        for number in range(ROUNDS):
            spent = {}
            for followed in (False, True) if number % 2 else (True, False):
                before = used(process)
                if followed:
                    with open_page(base, token):
                        calls(base, key)
                else:
                    calls(base, key)
                spent[followed] = used(process) - before
            ratios.append(spent[False] / spent[True])
    told = f"{median(ratios):.3f} of that without ({min(ratios):.3f} to {max(ratios):.3f})"
    print(f"\nrate with the page open: {told}")
    assert median(ratios) >= 0.95


def test_lines_of_every_call_cost_little() -> None:
    ratios = []
    with (
        serving("--log", "none") as (quiet, quiet_base, _, quiet_key),
        serving("--log", "lines") as (told, base, _, key),
    ):
        calls(quiet_base, quiet_key), calls(base, key)
        for _ in range(ROUNDS):
            before = used(quiet), used(told)
            calls(quiet_base, quiet_key), calls(base, key)
            ratios.append((used(quiet) - before[0]) / (used(told) - before[1]))
    print(f"\nrate with lines: {median(ratios):.3f} ({min(ratios):.3f} to {max(ratios):.3f})")
    assert median(ratios) >= 0.85


def resident(process: subprocess.Popen[str]) -> float:
    """Return the MiB of memory that a process has."""
    with open(f"/proc/{process.pid}/statm", encoding="ascii") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 2**20


HOUR = 60 * (600 + 120 + 20)
"""What one key may send in an hour under the policy's rate limits."""


def test_after_an_hour_of_load_the_page_has_taken_no_memory() -> None:
    ends = {}
    for followed in (False, True):
        with serving() as (process, base, token, key):
            auth = {"authorization": f"Bearer {key}"}
            with httpx.Client(base_url=base, headers=auth, timeout=600) as client:
                made = client.post("/v1/domains", json={"host": "a.example"}).json()["data"]
                path = f"/v1/domains/{made['id']}"

                def load(count: int, client: httpx.Client = client, path: str = path) -> None:
                    for number in range(count):
                        if number % 5 == 0:
                            client.patch(path, json={"label": str(number)})
                        else:
                            client.get(path)

                load(11_000)  # more than the journal of requests keeps
                full = resident(process)
                if followed:
                    with open_page(base, token):
                        load(HOUR - 11_000)
                else:
                    load(HOUR - 11_000)
                ends[followed] = full, resident(process)
    for followed, (full, end) in ends.items():
        words = f"{'with' if followed else 'without'} the page"
        print(f"\n{words}: {full:.1f} MiB with a full journal, {end:.1f} after an hour ({end / full:.3f})")
    assert ends[True][1] / ends[False][1] < 1.1
    assert all(end / full < 1.1 for full, end in ends.values())
