"""The second deployment as a process, and ranksim's commands that drive it over sockets in real time."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random
from typing import Any

from tests.judge.conformance.elsewhere.results import alarms
from tests.judge.conformance.elsewhere.virtual import elsewhere, target_keys

from ranksim.core.trace import Trace
from ranksim.judge.conformance.compare import compare

PROGRAM = Path(__file__).with_name("deployment.py")
FASTER = 10
"""Rate windows of 6 s, so that 20 s of load see several."""

DRIVERS = ("check", "everyday", "retry", "walk", "race", "ladder", "webhooks", "scope", "calibration")
MANY = ("everyday", "retry", "walk", "race")
"""Profiles for any number of users."""


@contextmanager
def served(folder: Path, *options: str) -> Iterator[Path]:
    """Run the program; give a target file of its addresses and keys."""
    command = [sys.executable, str(PROGRAM), "--traffic-scale", str(FASTER), *options]
    scale = options[options.index("--scale") + 1] if "--scale" in options else "1"
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            about = json.loads(process.stdout.readline())
            named = target_keys(about["keys"], about["scopes"])
            keys = {
                name: {"token": key.token, "environment": key.environment, "purpose": key.purpose}
                | ({} if key.domain_id is None else {"domain_id": key.domain_id})
                for name, key in named.items()
            }
            target = folder / "target.yaml"
            shown = {
                "exclusive": True,
                "traffic_scale": FASTER,
                "time_scale": int(scale),
                "environments": {"production": about["url"], "sandbox": about["sandbox_url"]},
                "keys": keys,
            }
            target.write_text(json.dumps(shown), encoding="utf-8")
            yield target
        finally:
            process.terminate()


def ran(command: str, target: Path, *options: str, out: str) -> Path:
    """Run `ranksim check load` or `ranksim check`, and give the trace that it wrote."""
    folder = target.parent / out
    asked = [
        sys.executable,
        "-m",
        "ranksim",
        *command.split(),
        "--target",
        str(target),
        "--out",
        str(folder),
        *options,
    ]
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("RANKSIM_", "LOCUST_"))}
    done = subprocess.run(asked, cwd=target.parent, env=kept, capture_output=True, text=True, timeout=600)
    assert (folder / "trace.jsonl").exists(), done.stdout + done.stderr
    return folder / "trace.jsonl"


def conforming(seed: int, folder: Path) -> dict[str, Any]:
    """Run one that conforms, of varied numbers over sockets, and tell what alarms it raised."""
    draw = Random(f"sockets/{seed}")
    driver = draw.choice(DRIVERS)
    users = draw.choice((1, 20, 200)) if driver in MANY else 1
    scale = draw.choice(("1", "60"))
    length = {1: "20s", 20: "15s", 200: "8s"}[users]
    with served(folder, "--varied", "--seed", str(seed), "--scale", scale) as target:
        if driver == "check":
            path = ran("check", target, "--time", "1m", "--seed", str(seed), out="out")
        else:
            options = ["--profile", driver, "--duration", length, "--seed", str(seed)]
            options += ["--users", str(users)] if driver in MANY else []
            path = ran("check load", target, *options, out="out")
    trace = Trace.read(path)
    return {
        "sockets": seed,
        "driver": driver,
        "users": users,
        "scale": int(scale),
        "window": elsewhere.drawn(seed, quick=True).window,
        "exchanges": len(trace.exchanges),
        "alarms": alarms(compare(trace)),
    }


def tight(seed: int, folder: Path, *breaks: str) -> dict[str, Any]:
    """Run a check of four minutes of a deployment of tight numbers, broken or not, and tell its alarms."""
    options = [word for one in breaks for word in ("--break", one)]
    with served(folder, "--tight", "--seed", str(seed), *options) as target:
        path = ran("check", target, "--time", "4m", "--spend-cap", "none", "--seed", str(seed), out="out")
    trace = Trace.read(path)
    return {"sockets": seed, "exchanges": len(trace.exchanges), "alarms": alarms(compare(trace))}
