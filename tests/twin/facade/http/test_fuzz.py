"""Raw HTTP made from a grammar and then mutated: what is answered never depends on how the network cut it.

    RANKSIM_FUZZ=1h .venv/bin/python -m pytest -m heavy -s tests/twin/facade/http/test_fuzz.py

RANKSIM_FUZZ is how long the heavy test goes on (default 2m), RANKSIM_FUZZ_SEED where it begins (it prints
every seed). It needs Linux, which tells what the server worked and what the machine kept it from.
"""

import asyncio
import json
import os
import re
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from itertools import pairwise
from pathlib import Path

import hypothesis
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tests.twin.facade.wire import answered, key

from ranksim.core.clock import SECOND, duration

FUZZ_SECONDS = duration(os.environ.get("RANKSIM_FUZZ", "2m")) // SECOND
FUZZ_SEED = int(os.environ.get("RANKSIM_FUZZ_SEED", "1"))
FUZZ_MS = 100
"""Milliseconds that the normal client may wait, without those in which other programs had the processor."""
CLIENT = Path(__file__).with_name("normal_client.py")
ROUND = 100
"""Examples of one seed."""

KEY = b"KEY"
"""Stands for the key of whoever is spoken to."""

# The grammar

METHODS = (
    [b"GET"] * 4
    + [b"POST"] * 4
    + [b"HEAD", b"OPTIONS", b"PATCH", b"PUT", b"DELETE", b"TRACE", b"get", b"G\0T"]
)
TARGETS = [
    b"/v1/domains", b"/v1/account", b"/v1/domains?limit=2", b"/v1/domains/%00", b"/sandbox/v1/account",
    b"/graphql", b"/livez", b"/", b"*", b"http://x/v1/account", b"//", b"/v1/%ff", b"/_ranksim/plans",
    b"/v1/nothing", b"/v1/domains?" + b"a" * 3_000, b"/v1/jobs", b"/v1/\xff",
]  # fmt: skip
VERSIONS = [b"HTTP/1.1"] * 30 + [b"HTTP/1.0", b"HTTP/1.1 ", b"HTTP/2.0", b"HTTP/9.9", b""]
GOOD_FIELDS = [
    b"Authorization: Bearer " + KEY, b"Content-Type: application/json", b"X-Request-Id: given",
    b"Expect: 100-continue",
]  # fmt: skip
ODD_FIELDS = [
    b"Authorization: Bearer no", b"Content-Type: text/plain", b"Connection: close",
    b"Connection: keep-alive", b"Connection: Upgrade\r\nUpgrade: h2c", b"Content-Encoding: br",
    b"Idempotency-Key: once",
    b"Host: y", b"X : y", b" folded", b"X\0: a", b"X:", b": x", b"X: \xff", b"Origin: http://evil.example",
    b"Content-Length: 0", b"Content-Length: +5", b"Content-Length: 5, 5", b"Content-Length: 9" + b"9" * 19,
    b"Transfer-Encoding: chunked", b"Transfer-Encoding: gzip, chunked", b"Transfer-Encoding: \tchunked",
    b"X: " + b"x" * 20_000, b"Accept: application/graphql-response+json",
]  # fmt: skip
CONTENTS = [
    b"", b"{}", b'{"host": "a.example"}', b'{"host": 1e400}', b'{"query": "{ account { id } }"}', b"[",
    b"\xff", b'{"host": "' + b"x" * 5_000 + b'"}',
]  # fmt: skip
EXTENSIONS = [b""] * 10 + [b";a=b", b' ;a="\r"', b";" + b"x" * 500]
TRAILERS = [
    b"",
    b"",
    b"",
    b"Authorization: Bearer " + KEY + b"\r\n",
    b"X: y\r\n",
    b"broken\r\n",
    b"X: " + b"y" * 70_000 + b"\r\n",
]
ENDS = [b"\r\n"] * 30 + [b"\n", b"\r", b"\r\r\n"]
NOISE = [b"\0", b"\r", b"\n", b"\r\n", b" ", b":", b"\xff", b"0", b"GET / HTTP/1.1\r\n\r\n", b"0\r\n\r\n"]


@st.composite
def bodies(draw: st.DrawFn) -> tuple[bytes, bytes]:
    """The field that frames a body, and the body: as it should be, or nearly."""
    content = draw(st.sampled_from(CONTENTS))
    kind = draw(st.sampled_from(["none", "length", "length", "chunked", "chunked", "short", "long", "both"]))
    if kind == "none":
        return b"", b""
    if kind in ("length", "short", "long"):
        off = {"length": 0, "short": -1, "long": 1}[kind]
        return b"Content-Length: %d\r\n" % max(0, len(content) + off), content
    at = sorted(draw(st.lists(st.integers(0, len(content)), max_size=3)))
    parts = [content[low:high] for low, high in pairwise([0, *at, len(content)])]
    framed = b"".join(
        b"%x%b\r\n%b\r\n" % (len(part), draw(st.sampled_from(EXTENSIONS)), part) for part in parts if part
    )
    body = framed + b"0\r\n" + draw(st.sampled_from(TRAILERS)) + b"\r\n"
    return b"Transfer-Encoding: chunked\r\n" + (b"Content-Length: 3\r\n" if kind == "both" else b""), body


@st.composite
def requests(draw: st.DrawFn) -> bytes:
    end = draw(st.sampled_from(ENDS))
    line = b" ".join(draw(st.sampled_from(part)) for part in (METHODS, TARGETS, VERSIONS))
    hosts = draw(st.sampled_from([[b"Host: x"]] * 20 + [[], [b"Host: x", b"Host: x"], [b"Host: a b"]]))
    fields = draw(st.lists(st.sampled_from(GOOD_FIELDS), max_size=3))
    fields += draw(st.just([]) | st.just([]) | st.lists(st.sampled_from(ODD_FIELDS), max_size=2))
    framing, body = draw(bodies())
    return end.join([line, *hosts, *fields, b""]) + framing + b"\r\n" + body


@st.composite
def streams(draw: st.DrawFn) -> bytes:
    """What one connection is sent: some requests, and what went wrong on the way."""
    sent = b"".join(draw(st.lists(requests(), min_size=1, max_size=4)))
    for _ in range(draw(st.sampled_from([0, 0, 0, 1, 2, 3]))):
        at = draw(st.integers(0, len(sent)))
        what, noise = (
            draw(st.sampled_from(["insert", "replace", "drop", "end"])),
            draw(st.sampled_from(NOISE)),
        )
        sent = {
            "insert": sent[:at] + noise + sent[at:],
            "replace": sent[:at] + noise + sent[at + len(noise) :],
            "drop": sent[:at] + sent[at + 1 :],
            "end": sent[:at],
        }[what]
    return sent


def cuts_of(draw: st.DrawFn, sent: bytes) -> list[int]:
    """Where segments end: anywhere, and often within an end of line."""
    lines = [at + offset for at in range(len(sent)) if sent[at : at + 1] == b"\r" for offset in (0, 1, 2)]
    near = st.sampled_from(lines) if lines else st.integers(0, len(sent))
    return sorted(
        {at for at in draw(st.lists(st.integers(0, len(sent)) | near, max_size=12)) if at <= len(sent)}
    )


@st.composite
def cut_streams(draw: st.DrawFn) -> tuple[bytes, list[bytes]]:
    sent = draw(streams())
    cuts = cuts_of(draw, sent)
    return sent, [sent[low:high] for low, high in pairwise([0, *cuts, len(sent)])]


# Without a socket: exactly the same answer


def _with_key(pieces: list[bytes], key: bytes) -> list[bytes]:
    """Put the real key in, cut wherever its place was cut."""
    ends, whole = [], b""
    for piece in pieces:
        whole += piece
        ends.append(len(whole))
    places = [at for at in range(len(whole)) if whole.startswith(KEY, at)]
    moved = [end + sum((len(key) - len(KEY)) for at in places if at + len(KEY) <= end) for end in ends]
    said = whole.replace(KEY, key)
    return [said[low:high] for low, high in pairwise([0, *moved])]


def check_cuts(sent: bytes, pieces: list[bytes]) -> None:
    whole, cut = (asyncio.run(answered(_with_key(one, key()))) for one in ([sent], pieces))
    assert cut == whole
    for line in whole[0].split(b"\r\n"):
        if line.startswith(b"HTTP/1.1 "):
            assert line[9:12] < b"500", line


BROKEN = b"GET /livez HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\nnone\r\n"


LARGE = b"GET /livez HTTP/1.1\r\nHost: a\r\n\r\n" + b"y" * 70_000 + b"\r\n\r\n"


@example((LARGE, [LARGE[:100], LARGE[100:]]))  # no HTTP from its first byte on, and too large besides
@example((BROKEN, [BROKEN[:-6], BROKEN[-6:]]))  # a broken body behind a head that is answered without it
@settings(derandomize=True)  # the gate tries the same ones each time; the hour tries others
@given(cut_streams())
def test_the_answer_does_not_depend_on_how_the_bytes_were_cut(case: tuple[bytes, list[bytes]]) -> None:
    check_cuts(*case)


# Over sockets


@contextmanager
def asking(tmp_path: Path, port: int, key: bytes, server: int) -> Iterator[Path]:
    """A good client in a process of its own, which asks without end; see what it writes there."""
    path = tmp_path / "waits"
    with path.open("w", encoding="ascii") as file:
        given = [str(port), key.decode(), str(server)]
        client = subprocess.Popen([sys.executable, CLIENT, *given], stdout=file, stderr=subprocess.STDOUT)
        try:
            yield path
        finally:
            client.kill()
            client.wait()


def waits_of(path: Path) -> dict[str, list[float]]:
    """What the good client measured, in ms and sorted; the last line may not be whole."""
    found: dict[str, list[float]] = {"wall": [0.0], "work": [0.0], "own": [0.0]}
    for line in path.read_text(encoding="ascii").split("\n")[:-1]:
        assert re.fullmatch(r"\d+ \d+ \d+", line), line
        for kind, micros in zip(found, line.split(), strict=True):
            found[kind].append(int(micros) / 1_000)
    return {kind: sorted(waits) for kind, waits in found.items()}


def summed_up(waits: list[float]) -> str:
    shares = ((0.5, "median"), (0.99, "99 %"), (0.999, "99.9 %"))
    told = [f"{name} {waits[int(len(waits) * share)]:.1f}" for share, name in shares]
    return ", ".join([*told, f"most {waits[-1]:.1f} ms"])


@contextmanager
def served(tmp_path: Path) -> Iterator[tuple[int, bytes, subprocess.Popen[str]]]:
    policy = tmp_path / "policy.yaml"
    policy.write_text("facts:\n  rates: {read: 100000000, write: 100000000, expensive: 100000000}\n")
    process = subprocess.Popen(
        [sys.executable, "-m", "ranksim", "serve", "--port", "0", "--json", "--policy", str(policy)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
    )
    try:
        assert process.stdout is not None
        said = json.loads(process.stdout.readline())
        yield int(said["base_url"].rpartition(":")[2]), said["key"].encode(), process
    finally:
        process.kill()
        process.communicate()


def resident(process: subprocess.Popen[str]) -> int:
    """MiB of memory that a process takes."""
    with open(f"/proc/{process.pid}/statm", encoding="ascii") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") // 1_048_576


def speak(port: int, pieces: list[bytes], manner: str) -> None:
    """Send pieces as one of three kinds of clients: one that reads, one that does not, one that leaves."""
    with suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=0.02) as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if manner == "leaves":
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        for piece in pieces:
            connection.sendall(piece)
        if manner == "reads":
            answer = connection.recv(65_536)
            assert answer == b"" or answer.startswith(b"HTTP/1.1 "), answer
            assert not answer.startswith(b"HTTP/1.1 5"), answer


@pytest.mark.heavy
@pytest.mark.filterwarnings("ignore:Generating overly large repr")  # of requests with trailers of 70 KB
@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc for what a process takes and waits")
def test_an_hour_of_mutated_requests_hurts_nobody(tmp_path: Path) -> None:
    """Three kinds of connections at once; meanwhile a normal client is answered in time."""
    end = time.monotonic() + FUZZ_SECONDS
    with served(tmp_path) as (port, key, process), asking(tmp_path, port, key, process.pid) as normal:
        memory, cases = resident(process), 0

        def attack(case: tuple[bytes, list[bytes]]) -> None:
            nonlocal cases
            if time.monotonic() > end:
                return
            cases += 1
            check_cuts(*case)
            pieces = _with_key(case[1], key)
            kinds = [
                threading.Thread(target=speak, args=(port, pieces, manner))
                for manner in ("reads", "keeps silent", "leaves")
            ]
            for kind in kinds:
                kind.start()
            for kind in kinds:
                kind.join()

        rounds = 0
        while time.monotonic() < end:
            seed = FUZZ_SEED + rounds
            print(f"seed {seed}: {cases} cases, {resident(process)} MiB", flush=True)
            one_round = settings(max_examples=ROUND, database=None, deadline=None)(
                given(cut_streams())(attack)
            )
            hypothesis.seed(seed)(one_round)()
            rounds += 1
        waits = waits_of(normal)
        print(f"{cases} cases x 3, {len(waits['own'])} normal requests; {memory} -> {resident(process)} MiB")
        print(f"wait by the wall clock: {summed_up(waits['wall'])}")
        print(f"... without what the machine added: {summed_up(waits['own'])}")
        print(f"the server's processor time meanwhile: {summed_up(waits['work'])}")
        assert process.poll() is None
        assert resident(process) < memory + 200
        assert waits["work"][-1] <= FUZZ_MS
        assert waits["own"][-1] <= FUZZ_MS
        process.terminate()
        assert process.wait(60) == 0
        assert process.stderr is not None
        assert "Traceback" not in process.stderr.read()
