"""What `ranksim trace record` adds to a call, and the memory that it takes: the same calls with and without.

python benchmarks/record.py [CALLS [FURTHER]]

FURTHER calls are made through the proxy alone, and its memory is told as they go.
"""

from __future__ import annotations

import http.client
import json
import os
import re
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

CALLS = int(sys.argv[1]) if len(sys.argv) > 1 else 20_000
FURTHER = int(sys.argv[2]) if len(sys.argv) > 2 else 0
ROUND = 500


def timed(connection: http.client.HTTPConnection, key: str, calls: int) -> list[float]:
    """Make calls one after the other; return how long each took, in ms."""
    took = []
    for _ in range(calls):
        began = time.perf_counter()
        connection.request("GET", "/v1/account", headers={"Authorization": f"Bearer {key}"})
        connection.getresponse().read()
        took.append(1000 * (time.perf_counter() - began))
    return took


def memory(process: subprocess.Popen[str]) -> float:
    """Return the resident memory of a process, in MB."""
    status = Path(f"/proc/{process.pid}/status").read_text(encoding="ascii")
    found = re.search(r"VmRSS:\s+(\d+)", status)
    assert found
    return int(found[1]) / 1024


def started(*words: str) -> tuple[subprocess.Popen[str], str]:
    """Start a command of ranksim; return it and the line that tells its address."""
    process = subprocess.Popen(
        [sys.executable, "-m", "ranksim", *words], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    assert process.stdout is not None
    return process, process.stdout.readline()


def main() -> None:
    """Alternate rounds of calls with and without the proxy, and print their medians."""
    with tempfile.TemporaryDirectory() as folder:
        server, line = started("serve", "--port", "0", "--json")
        addresses = json.loads(line)
        out = str(Path(folder) / "out")
        proxy, line = started(
            "record", "--upstream", addresses["base_url"], "--out", out, "--listen", "127.0.0.1:0"
        )
        found = re.search(r"http://([\d.]+):(\d+)", line)
        assert found, line
        direct = http.client.HTTPConnection(addresses["base_url"].removeprefix("http://"))
        through = http.client.HTTPConnection(found[1], int(found[2]))
        timed(direct, addresses["key"], 50), timed(through, addresses["key"], 50)
        begin, without, with_proxy = memory(proxy), list[float](), list[float]()
        for _ in range(CALLS // ROUND):
            without += timed(direct, addresses["key"], ROUND)
            with_proxy += timed(through, addresses["key"], ROUND)
        end = memory(proxy)
        a, b = statistics.median(without), statistics.median(with_proxy)
        print(f"median: {a:.3f} ms direct, {b:.3f} ms recorded: {b - a:.3f} ms more, × {b / a:.2f}")
        print(f"memory of the proxy: {begin:.0f} MB after 50 calls, {end:.0f} MB after {CALLS:,} more")
        for done in range(ROUND, FURTHER + 1, ROUND):
            timed(through, addresses["key"], ROUND)
            if done in (10_000, 100_000) or done % 250_000 == 0:
                print(f"memory of the proxy: {memory(proxy):.0f} MB after {done:,} further calls", flush=True)
        proxy.send_signal(signal.SIGINT)
        print(proxy.communicate()[0].strip().splitlines()[0])
        os.kill(server.pid, signal.SIGINT)
        server.communicate()


if __name__ == "__main__":
    main()
