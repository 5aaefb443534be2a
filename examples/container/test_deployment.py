"""A deployment in a container, called with `requests`: what a container library would do, in 30 lines.

`RANKSIM_SERVE` says how to start one. By default it is `docker run`; without an engine it may be `ranksim
serve --port 18080`.
"""

import json
import os
import shlex
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass

import pytest
import requests

IN_A_CONTAINER = "docker run --rm --init -p 127.0.0.1:18080:8080 ranksim"
FLAGS = ("--json", "--clock", "manual", "--start", "2026-03-04T10:00:00Z", "--seed", "7")


@dataclass
class Deployment:
    url: str
    api: requests.Session
    control: requests.Session


@pytest.fixture(scope="session")
def deployment() -> Iterator[Deployment]:
    start = shlex.split(os.environ.get("RANKSIM_SERVE", IN_A_CONTAINER))
    with subprocess.Popen([*start, *FLAGS], stdout=subprocess.PIPE, text=True) as process:
        said = json.loads(process.stdout.readline())  # it is written once a request would be answered
        url = os.environ.get("RANKSIM_URL", "http://127.0.0.1:18080")
        api, control = requests.Session(), requests.Session()
        api.headers["Authorization"] = f"Bearer {said['key']}"
        control.headers["Authorization"] = f"Bearer {said['control_token']}"
        yield Deployment(url, api, control)
        process.terminate()


@pytest.fixture(autouse=True)
def fresh(deployment: Deployment) -> None:
    """Each test begins in the same world: the same key, the same ids, the same instant."""
    deployment.control.post(f"{deployment.url}/_ranksim/reset").raise_for_status()


def test_a_crawl_comes_too_soon_and_then_in_time(deployment: Deployment) -> None:
    api, url = deployment.api, deployment.url
    domain = api.post(f"{url}/v1/domains", json={"host": "example.com"}).json()["data"]["id"]
    crawl = {"kind": "crawl", "domain_id": domain}
    assert api.post(f"{url}/v1/jobs", json=crawl).status_code == 202
    soon = api.post(f"{url}/v1/jobs", json=crawl)
    assert (soon.status_code, soon.json()["code"]) == (409, "cooldown_active")
    wait = {"by": f"{soon.headers['Retry-After']}s"}
    deployment.control.post(f"{url}/_ranksim/clock/advance", json=wait).raise_for_status()
    assert api.post(f"{url}/v1/jobs", json=crawl).status_code == 202


def test_a_fault_is_marked(deployment: Deployment) -> None:
    rule = {"operation": "domains.list", "error_rate": 1}
    deployment.control.post(f"{deployment.url}/_ranksim/faults", json=rule).raise_for_status()
    answer = deployment.api.get(f"{deployment.url}/v1/domains")
    assert (answer.status_code, answer.headers["Ranksim-Fault"]) == (500, "fault_1")
