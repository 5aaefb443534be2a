"""compose.yaml without an engine: its services as processes, by its own command lines and variables."""

import json
import os
import shlex
import socket
import subprocess
import sys
from collections.abc import Iterator
from itertools import takewhile
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml

ROOT = Path(__file__).parents[3]

COMPOSE = yaml.safe_load((ROOT / "compose.yaml").read_text("utf-8"))

TOKEN = {"authorization": "Bearer secret"}

pytestmark = pytest.mark.slow


def of_the_image(instruction: str) -> str:
    """Return what the Dockerfile's last stage says."""
    stage = (ROOT / "Dockerfile").read_text("utf-8").rpartition("\nFROM")[2].replace("\\\n", "")
    return next(line for line in stage.splitlines() if line.startswith(instruction))[
        len(instruction) :
    ].strip()


class Service:
    """A service of the file, started as its container would be, at a port of its own."""

    def __init__(self, name: str, data: Path) -> None:
        said = COMPOSE["services"][name]
        entry = said.get("entrypoint") or json.loads(of_the_image("ENTRYPOINT"))
        words = [str(word).replace("/data/", f"{data}/") for word in [*entry, *said.get("command", ())]]
        assert words[0] == "ranksim"
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.port = free.getsockname()[1]
        command = "_".join(takewhile(lambda word: not word.startswith("-"), words[1:])).upper()
        image = dict(one.split("=", 1) for one in shlex.split(of_the_image("ENV")) if "PATH=" not in one)
        self.variables = {
            **os.environ, **image, **said["environment"],
            f"RANKSIM_{command}_HOST": "127.0.0.1",
            f"RANKSIM_{command}_PORT": str(self.port),
        }  # fmt: skip
        self.process = subprocess.Popen(
            [sys.executable, "-m", *words],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env=self.variables,
        )

    def until(self, *begins: str) -> dict[str, str]:
        """Read what it says until a line begins so, and return the lines that name something."""
        assert self.process.stdout is not None
        found: dict[str, str] = {}
        for line in self.process.stdout:
            name, _, value = line.strip().partition("  ")
            found[name] = value.strip()
            if line.strip().startswith(begins):
                return found
        raise AssertionError(f"it ended: {found}")

    def stop(self) -> int:
        if self.process.poll() is None:
            self.process.terminate()
            self.process.communicate()
        return self.process.returncode


@pytest.fixture
def services(tmp_path: Path) -> Iterator[dict[str, Service]]:
    made = {name: Service(name, tmp_path) for name in COMPOSE["services"]}
    yield made
    for service in made.values():
        service.stop()


def test_the_services_of_the_compose_file_do_what_its_head_says(
    services: dict[str, Service], tmp_path: Path
) -> None:
    facade, receiver = services["facade"], services["receiver"]
    said = facade.until("curl ")
    receiver.until("ranksim: receiving")
    url = f"http://127.0.0.1:{facade.port}"
    with httpx.Client(base_url=url, trust_env=False) as client:

        def ask(path: str, body: Any, method: str = "POST") -> Any:
            key = {"authorization": f"Bearer {said['key']}"}
            answer = client.request(method, path, json=body, headers=TOKEN if "_ranksim" in path else key)
            return answer.raise_for_status().json()

        page = client.get("/", params={"token": "secret"}, headers={"accept": "text/html"})
        assert (page.status_code, "page.js" in page.text) == (200, True)
        ask("/v1/webhooks", {"url": f"http://127.0.0.1:{receiver.port}/hooks", "event_types": []})
        subprocess.run(
            [sys.executable, "-m", "ranksim", "serve", "trigger", "job.failed"],
            env=facade.variables | {"RANKSIM_URL": url}, check=True, capture_output=True,
        )  # fmt: skip
        ask("/_ranksim/clock", {"clock": "manual"}, "PATCH")
        assert ask("/_ranksim/clock/advance", {"by": "10m"})["settled"]
    came = httpx.get(f"http://127.0.0.1:{receiver.port}/_receiver/requests", headers=TOKEN, trust_env=False)
    assert [(one["attempt"], one["status"]) for one in came.json()["requests"]] == [
        (1, 500),
        (2, 500),
        (3, 200),
    ]
    assert (tmp_path / "state.db").stat().st_size > 0
    assert facade.stop() == 0
