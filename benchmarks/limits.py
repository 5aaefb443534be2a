"""`ranksim limits` on limiters that nobody here wrote: right, and broken in four ways.

    python benchmarks/limits.py --seed 1                  all that can be started here
    python benchmarks/limits.py --seed 1 --only nginx     one of them
    python benchmarks/limits.py --seed 1 --form right     as they come, none broken
    python benchmarks/limits.py --seed 1 --results FILE   go on where FILE ends

Numbers are drawn by the seed: limits of 5 to 40 calls in 1 to 3 s. A Python limiter is of its package
(`pip install -r benchmarks/limiters/requirements.txt`), a Node one of npm's (`npm install --prefix
benchmarks/limiters`), nginx, HAProxy, Varnish (with varnish-modules), Redis and faketime of Debian's. What
cannot be started is said.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import signal
import socket
import socketserver
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

from ranksim.core.clock import SECOND
from ranksim.core.errors import BadInput
from ranksim.judge.limits.driver import Prober, ProbeRequest
from ranksim.judge.limits.judged import LimitVerdict
from ranksim.judge.limits.probing import ProbePlan, probe

HERE = Path(__file__).parent / "limiters"
MOST, SOON = 1000, 500
"""Calls of a run, and those by which a broken limiter is to be caught."""

PYTHON = {
    "flask-limiter-fixed": "first_hit",
    "flask-limiter-moving": "sliding_log",
    "flask-limiter-counter": "sliding_counter",
    "flask-limiter-redis-fixed": "first_hit",
    "flask-limiter-redis-moving": "sliding_log",
    "slowapi": "first_hit",
    "litestar": "clock",
    "django-rest-framework": "sliding_log",
    "django-ratelimit": "clock",
    "throttled-fixed": "clock",
    "throttled-sliding": "sliding_counter",
    "throttled-gcra": "gcra",
}
NODE = {
    "express-rate-limit": "first_hit",
    "express-rate-limit-redis": "first_hit",
    "rate-limiter-flexible": "first_hit",
    "fastify": "first_hit",
    "koa-ratelimit": "first_hit",
}
GO = ("go-x-time-rate", "juju-ratelimit")
NATIVE = {"nginx": "gcra", "nginx-queue": "queue", "haproxy": "rotating", "go-x-time-rate": "gcra"}
ALGORITHM = {**PYTHON, **NODE, **NATIVE}
"""Each limiter, and the algorithm that its documents or its source name."""

WHOLE_SECONDS = ("litestar",)
"""Those that count whole seconds of the clock, and have windows of one second."""

FOUND = {
    "throttled-bucket": "a bucket that refills in whole seconds, and forgets what is left of them",
    "juju-ratelimit": "a bucket that refills at ticks: one more than its burst is admitted around one",
    "varnish-vsthrottle": "a bucket that forgets the part of a token that each call finds",
}
"""Limiters that do not do what they are asked for, as they come: docs/limits.md tells."""

OWN_CLOCK = GO
"""Those whose clock nobody else sets: Go asks the kernel itself."""

RACING = ("flask-limiter-fixed", "flask-limiter-moving", "flask-limiter-counter", "rate-limiter-flexible")
"""Those that can be asked and made to count apart, as people do who check first."""

SHARED = ("flask-limiter-redis-fixed", "flask-limiter-redis-moving", "express-rate-limit-redis")
"""Those with a store of their own for all replicas, so that two are no fault."""


@dataclass(frozen=True)
class Case:
    """A run: a limiter as `broken` says, promised as `limit` in `seconds`."""

    limiter: str
    broken: str
    limit: int
    seconds: int
    made: int
    """The limit that it was made with."""
    drift: float


def cases(seed: int, only: str, form: str) -> list[Case]:
    """Draw the runs of a seed: of limiters named like `only`, of forms like `form`."""
    draw = random.Random(seed)
    runs = []
    for name in (*ALGORITHM, *FOUND):
        limit, seconds = draw.randint(5, 40), draw.choice((1, 2, 3))
        if name in WHOLE_SECONDS:
            seconds = 1
        # what a store counts by its own clock is no worse for ours
        drift = 1 + draw.choice((-1, 1)) * draw.uniform(0.05, 0.2)
        off = draw.choice((-1, 1))
        forms = [("right", limit, 1.0), ("off by one", limit + off, 1.0)]
        if name not in SHARED:
            forms.append(("replicas", limit, 1.0))
        if name not in (*SHARED, *OWN_CLOCK):
            forms.append(("drift", limit, drift))
        if name in RACING:
            forms.append(("race", limit, 1.0))
        if name in FOUND:
            forms = [("as it comes", limit, 1.0)]
        if only in name:
            runs += [
                Case(name, broken, limit, seconds, made, fast)
                for broken, made, fast in forms
                if form in broken
            ]
    return runs


def free_port() -> int:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        port: int = sock.getsockname()[1]
        return port


def command(case: Case, port: int, folder: Path) -> list[str]:
    """Return what starts a limiter."""
    broken = {"race": "race", "drift": f"drift={case.drift:.3f}"}.get(case.broken, "")
    words = [case.limiter, str(case.made), str(case.seconds), str(port), broken]
    if case.limiter == "varnish-vsthrottle":
        return varnish(case, port, folder)
    if case.limiter in GO:
        return [str(HERE / "go_server"), *words[:4]]
    if case.limiter in PYTHON or case.limiter in FOUND:
        return [sys.executable, str(HERE / "python_server.py"), *words]
    if case.limiter in NODE:
        return ["node", str(HERE / "node_server.js"), *words]
    wrapped = ["faketime", "-f", f"+0 x{case.drift:.3f}"] if case.broken == "drift" else []
    config = folder / f"{port}.conf"
    text = nginx(case, port, folder) if case.limiter.startswith("nginx") else haproxy(case, port)
    config.write_text(text, encoding="utf-8")
    if case.limiter == "haproxy":
        return [*wrapped, shutil.which("haproxy") or "/usr/sbin/haproxy", "-f", str(config), "-db"]
    return [*wrapped, shutil.which("nginx") or "/usr/sbin/nginx", "-c", str(config)]


def nginx(case: Case, port: int, folder: Path) -> str:
    """A rate of whole calls a minute, and the burst that makes a bucket of the limit."""
    rate = case.made * 60 / case.seconds
    delay = "" if case.limiter == "nginx-queue" else " nodelay"
    return f"""
daemon off; master_process off; pid {folder}/{port}.pid; error_log {folder}/{port}.log;
events {{ worker_connections 256; }}
http {{
  access_log off;
  client_body_temp_path {folder}/body; proxy_temp_path {folder}/proxy; fastcgi_temp_path {folder}/fastcgi;
  uwsgi_temp_path {folder}/uwsgi; scgi_temp_path {folder}/scgi;
  limit_req_zone $server_name zone=all:1m rate={round(rate)}r/m;
  server {{
    listen 127.0.0.1:{port}; server_name limited; keepalive_requests 100000;
    location / {{ limit_req zone=all burst={case.made - 1}{delay}; limit_req_status 429;
      error_page 404 =200 @ok; root /nonexistent; }}
    location @ok {{ return 200 "admitted"; }}
  }}
}}
"""


def haproxy(case: Case, port: int) -> str:
    return f"""
defaults
  mode http
  timeout client 30s
  timeout server 30s
  timeout connect 5s
frontend limited
  bind 127.0.0.1:{port}
  stick-table type string len 8 size 10 expire 60s store http_req_rate({case.seconds}s)
  http-request track-sc0 str(all)
  http-request return status 429 if {{ sc_http_req_rate(0) gt {case.made} }}
  http-request return status 200 content-type text/plain string admitted
"""


def varnish(case: Case, port: int, folder: Path) -> list[str]:
    """Write what Varnish runs, and return what starts it."""
    rules = folder / f"{port}.vcl"
    rules.write_text(
        f"""
vcl 4.1;
import vsthrottle;
backend default none;
sub vcl_recv {{
  if (vsthrottle.is_denied("all", {case.made}, {case.seconds}s)) {{ return (synth(429)); }}
  return (synth(200));
}}
""",
        encoding="utf-8",
    )
    options = ["-F", "-j", "none", "-a", f"127.0.0.1:{port}", "-f", str(rules), "-n", str(folder / f"{port}")]
    return [shutil.which("varnishd") or "/usr/sbin/varnishd", *options, "-s", "malloc,16m"]


@contextmanager
def started(words: list[str], port: int) -> Iterator[None]:
    """Start a server and wait until it listens. Raises RuntimeError where it does not."""
    process = subprocess.Popen(
        words, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, start_new_session=True
    )
    try:
        for _ in range(200):
            if process.poll() is not None:
                raise RuntimeError((process.stderr.read() if process.stderr else b"").decode()[-300:])
            try:
                socket.create_connection(("127.0.0.1", port), 0.2).close()
                break
            except OSError:
                time.sleep(0.1)
        else:
            raise RuntimeError("it does not listen")
        yield
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        if process.stderr:
            process.stderr.close()


class Balancer(socketserver.ThreadingTCPServer):
    """Hands each connection to the next of several replicas."""

    daemon_threads, allow_reuse_address = True, True
    request_queue_size = 64

    def __init__(self, ports: list[int]) -> None:
        super().__init__(("127.0.0.1", 0), _Passing)
        self.ports, self.turn = ports, 0


class _Passing(socketserver.BaseRequestHandler):
    def handle(self) -> None:
        server = self.server
        assert isinstance(server, Balancer)
        server.turn += 1
        upstream = socket.create_connection(("127.0.0.1", server.ports[server.turn % len(server.ports)]))
        threads = [
            threading.Thread(target=_copy, args=pair, daemon=True)
            for pair in ((self.request, upstream), (upstream, self.request))
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()


def _copy(source: socket.socket, sink: socket.socket) -> None:
    source.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    try:
        while data := source.recv(65536):
            sink.sendall(data)
        sink.shutdown(socket.SHUT_WR)
    except OSError:
        pass


def run(case: Case, seed: int) -> dict[str, object]:
    """Start a limiter, probe it, and return what was found of it."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        ports = [free_port() for _ in range(2 if case.broken == "replicas" else 1)]
        for port in ports:
            stack.enter_context(started(command(case, port, folder), port))
        front = ports[0]
        if len(ports) > 1:
            balancer = stack.enter_context(Balancer(ports))
            threading.Thread(target=balancer.serve_forever, daemon=True).start()
            stack.callback(balancer.shutdown)
            front = balancer.server_address[1]
        begun, used = time.monotonic(), time.process_time()
        request = ProbeRequest(f"http://127.0.0.1:{front}/")
        plan = ProbePlan(
            (request,), f"{case.limit}/{case.seconds}s", most=MOST, length=300 * SECOND, seed=seed
        )
        prober = Prober(request)
        judgement, calls = probe(plan, prober=prober)
        judged = judgement.parts[0].judged
        return {
            **asdict(case),
            "seed": seed,
            "verdict": str(judged.verdict),
            "algorithm": judged.algorithm,
            "algorithms": list(judged.algorithms),
            "calls": len(calls),
            "says": "" if judged.evidence is None else judged.evidence.says,
            "retry": asdict(judgement.parts[0].statements),
            "ended": judgement.ended,
            "seconds_taken": round(time.monotonic() - begun, 1),
            "cpu": round(time.process_time() - used, 2),
        }


def summary(rows: list[dict[str, object]]) -> str:
    """Return the figures of the goal."""
    right = [row for row in rows if row["broken"] == "right"]
    broken = [row for row in rows if row["broken"] != "right"]
    alarms = [row for row in right if row["verdict"] == LimitVerdict.BROKEN]
    named = [row for row in right if row["algorithm"] == ALGORITHM[str(row["limiter"])]]
    wrong = [row for row in right if row["algorithm"] not in (None, ALGORITHM[str(row["limiter"])])]
    caught = [
        row for row in broken if row["verdict"] == LimitVerdict.BROKEN and int(str(row["calls"])) <= SOON
    ]
    lines = [
        f"right   {len(right)} runs, {len(alarms)} alarms; named in {len(named)}, wrongly in {len(wrong)}",
        f"broken  {len(broken)} runs, {len(caught)} caught within {SOON} calls",
        f"cpu     {sum(float(str(row['cpu'])) for row in rows):.0f} s",
    ]
    for row in rows:
        expected = row["broken"] == "right"
        if (row["verdict"] == LimitVerdict.BROKEN) == expected or row in wrong:
            what = f"{row['limiter']} {row['broken']} {row['limit']}/{row['seconds']}s"
            lines.append(f"        {what}: {row['verdict']}, {row['algorithms']} {row['says']}")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", default="")
    parser.add_argument("--form", default="")
    parser.add_argument("--jobs", type=int, default=4)
    parser.add_argument("--results", type=Path)
    options = parser.parse_args()
    rows: list[dict[str, object]] = []
    if options.results and options.results.exists():
        rows = [json.loads(line) for line in options.results.read_text(encoding="utf-8").splitlines()]
    done = {(row["limiter"], row["broken"], row["seed"]) for row in rows}
    left = [
        case
        for case in cases(options.seed, options.only, options.form)
        if (case.limiter, case.broken, options.seed) not in done
    ]
    with ProcessPoolExecutor(options.jobs) as pool:
        futures = {pool.submit(run, case, options.seed): case for case in left}
        for future in as_completed(futures):
            rows += note(futures[future], future, options.results)
    print(summary(rows))


def note(case: Case, future: Future[dict[str, object]], results: Path | None) -> list[dict[str, object]]:
    """Print what came of a run, and write it down."""
    try:
        row = future.result()
    except (RuntimeError, OSError, BadInput) as broken:
        print(f"{case.limiter} {case.broken}: {broken}", flush=True)
        return []
    print(
        f"{case.limiter} {case.broken} {case.limit}/{case.seconds}s: {row['verdict']} "
        f"{row['algorithm'] or row['algorithms']} {row['calls']} calls {row['ended']}",
        flush=True,
    )
    if results:
        with results.open("a", encoding="utf-8") as file:
            file.write(json.dumps(row) + "\n")
    return [row]


if __name__ == "__main__":
    main()
