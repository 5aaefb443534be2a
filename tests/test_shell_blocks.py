"""The shell blocks of the README and docs/ run in the environment that the README's first command makes.

A page is one shell session from the root of a fresh clone, so its blocks build on each other as they do for a
reader. What cannot be had here is put in its place: a deployment for the addresses, a key, ids of jobs that
there are. Long runs are made short. What is left out stands in `LEFT_OUT`, with its reason.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest

pytestmark = pytest.mark.heavy

ROOT = Path(__file__).parents[1]
BLOCK = re.compile(r"^```sh\n(.*?)^```$", re.MULTILINE | re.DOTALL)
FILE = re.compile(r"^```yaml\n# (\S+\.yaml)(?:: [^\n]*)?\n(.*?)^```$", re.MULTILINE | re.DOTALL)
"""A YAML block whose first line names its file is written there before its page runs."""

PAGES = [
    page
    for page in [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md")), ROOT / "scenarios" / "README.md"]
    if BLOCK.search(page.read_text("utf-8"))
]

LEFT_OUT = {
    r"^python3 -m venv ": "the README's two commands: the first makes this environment, the gate runs both",
    r"--scheduler tcp://": "wants a Dask cluster; tests/planner/study/test_cluster.py has one",
    r"--target (deployment|production)\.yaml": "wants a target file; tests/judge/check has the command",
    r"--scenario twin/": "wants an account that tracks something; tests/judge/mirror asks these of one",
    r"^ranksim limits ": "wants somebody else's API; tests/judge/limits has some",
    r"^ranksim trace record |\brecorded\b": "wants an application that calls; tests/judge/load has it",
    r"import browser\.har ": "wants recordings of the reader's; tests/test_har.py reads such files",
    r"^ranksim serve resend ": "wants an id; tests/twin/facade/control/test_webhooks_by_hand.py has one",
    r"--expect-workers|--worker\b": "wants two processes; tests/judge/load/test_distributed.py has them",
}
SHORTENED = [
    (r"--duration \d+s", "--duration 10s"),
    (r"-t 5m", "-t 5s"),
    (r"-u 200?\b", "-u 3"),
    (r"--replications \d+", "--replications 4"),
    (r"ranksim check (?!load |tidy |.*--target)", "ranksim check --time 1m --only paging "),
    (r"pytest (scenarios -m heavy|-m heavy tests/coverage)", r"pytest \1 --collect-only"),
]
SERVES = re.compile(
    r"^ranksim (serve\b(?! (state|trigger|resend)\b|.*--check)|receive\b)|^curl -N\b|^locust (?!.*--headless)"
)
"""Commands that go on until they are stopped; they run until they say something, and must end well."""

JUDGES = re.compile(r"^ranksim compare\b|^(RANKSIM_KEY=\S+ )?ranksim check\b")
"""Commands that may say no: exit code 1 is an answer."""


@dataclass(frozen=True)
class Deployment:
    """A fake deployment, for the addresses and keys in the pages, with jobs under way."""

    url: str
    key: str
    token: str
    job: str
    domain: str
    endpoint: str


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A fresh clone of the last commit, with the environment that the README's first command makes."""
    folder = tmp_path_factory.mktemp("checkout") / "ranksim"
    subprocess.run(["git", "clone", "-q", str(ROOT), str(folder)], check=True)
    shell("set -e\n" + command(1), folder)
    return folder


@pytest.fixture
def session(page: Path, checkout: Path) -> str:
    """The text of a page, once the checkout has what its blocks want: its files, and pytest if asked for."""
    subprocess.run(["git", "clean", "-fdxq", "-e", ".venv"], cwd=checkout, check=True)
    text = page.read_text("utf-8")
    for file in FILE.finditer(text):
        (checkout / file[1]).write_text(file[2], "utf-8")
    if any(re.search(r"\bpytest\b", block[1]) for block in BLOCK.finditer(text)):
        shell(command(2).split("&& .venv/bin/python -m pytest")[0], checkout)
    return text


@pytest.fixture
def deployment(session: str, checkout: Path) -> Iterator[Deployment]:
    words = [str(checkout / ".venv/bin/ranksim"), "serve", "--port", "0", "--json"]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            served = json.loads(process.stdout.readline())
            with httpx.Client(
                base_url=served["rest"], headers={"Authorization": f"Bearer {served['key']}"}, timeout=60
            ) as client:
                yield Deployment(
                    served["base_url"], served["key"], served["control_token"], *under_way(client)
                )
        finally:
            process.terminate()
    assert process.returncode == 0


def under_way(client: httpx.Client) -> tuple[str, str, str]:
    """A job under way, a domain and an endpoint, as the pages have them."""
    domain = created(client, "/domains", {"host": "example.com"})
    job = created(client, "/jobs", {"kind": "crawl", "domain_id": domain})
    return job, domain, created(client, "/webhooks", {"url": "http://127.0.0.1:9/hook", "event_types": []})


def created(client: httpx.Client, path: str, body: dict[str, object]) -> str:
    reply = client.post(path, json=body)
    assert reply.is_success, reply.text
    return str(reply.json()["data"]["id"])


def command(number: int) -> str:
    """The N-th command of the README's section on installing, as the gate reads it."""
    script = ROOT / ".ci" / "readme_commands.py"
    return subprocess.run(
        [sys.executable, str(script), str(number)], check=True, capture_output=True, text=True
    ).stdout


def shell(script: str, folder: Path) -> str:
    """Run a script in a folder, with no more of this environment than a login has. Return what it printed."""
    kept = ("PATH", "HOME", "USER", "LANG", "TMPDIR", "PIP_CONFIG_FILE", "SSL_CERT_FILE")
    environment = {name: os.environ[name] for name in kept if name in os.environ}
    environment["PATH"] = os.pathsep.join(
        one for one in environment["PATH"].split(os.pathsep) if not one.startswith(sys.prefix)
    )
    environment |= {"RANKSIM_SERVE_PORT": "0", "RANKSIM_SERVE_RECEIVE_PORT": "0", "LOCUST_WEB_PORT": "0"}
    done = subprocess.run(
        ["bash", "-c", script], cwd=folder, env=environment, text=True, timeout=3600,
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-5000:]
    return done.stdout


def lines(text: str) -> list[str]:
    """The commands of a block, without comments, each on one line."""
    joined = text.replace("\\\n", " ")
    bare = (re.sub(r"(^|\s)#\s.*$", "", line).strip() for line in joined.splitlines())
    return [line for line in bare if line]


def adapted(line: str, there: Deployment) -> str:
    """A line as it can run here."""
    line = re.sub(r"https://(sandbox|api)\.example\.com|http://127\.0\.0\.1:8080", there.url, line)
    line = re.sub(r"RANKSIM_KEY=\S+", f"RANKSIM_KEY={there.key}", line)
    line = re.sub(r"TOKEN=as-printed", f"TOKEN={there.token}", line)
    line = re.sub(r"--port \d+", "--port 0", line)
    line = line.replace("job_0000000012", "$job" if "/finish" in line else there.job)
    line = line.replace("whk_0000000009", there.endpoint)
    line = re.sub(r"^curl ", "curl -fsS ", line)
    for long, short in SHORTENED:
        line = re.sub(long, short, line)
    return line


def script_of(page: str, there: Deployment) -> str:
    """The session of a page: what serves is stopped once it has said something, what judges may say no."""
    steps = ["set -eu", ". .venv/bin/activate"]
    for block in BLOCK.finditer(page):
        for line in lines(block[1]):
            if any(re.search(reason, line) for reason in LEFT_OUT):
                continue
            here = adapted(line, there)
            if "$job" in here:
                steps.append(another_job(there))
            steps.append(f"echo {json.dumps('$ ' + here).replace('$', chr(92) + '$')}")
            if SERVES.search(line):
                steps.append(until_it_speaks(here))
            elif JUDGES.search(line):
                steps.append(f"{here} || [ $? -eq 1 ]")
            else:
                steps.append(here)
    return "\n".join(steps)


def another_job(there: Deployment) -> str:
    """Start a job that is under way still, whatever faults are on: the one before has been waited for."""
    body = json.dumps({"kind": "ai_scan", "domain_id": there.domain})
    words = f"-H 'Authorization: Bearer {there.key}' -H 'Content-Type: application/json' -d '{body}'"
    read = "import json, sys; print(json.load(sys.stdin)['data']['id'])"
    return f'until job=$(curl -fs {there.url}/v1/jobs {words} | python -c "{read}"); do sleep 0.1; done'


def until_it_speaks(line: str) -> str:
    """Run a command in the background until it has printed something, then end it."""
    return f"""( exec {line} ) >served.log 2>&1 & pid=$!
for _ in $(seq 600); do [ -s served.log ] && break; sleep 0.1; done
[ -s served.log ] || {{ echo "said nothing"; exit 1; }}
kill -TERM $pid; code=0; wait $pid || code=$?; cat served.log; [ $code -eq 0 ] || [ $code -eq 143 ]"""


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_shell_blocks_run(page: Path, session: str, checkout: Path, deployment: Deployment) -> None:
    print(shell(script_of(session, deployment), checkout))


def test_what_is_left_out_is_still_there() -> None:
    text = "\n".join(page.read_text("utf-8") for page in PAGES)
    blocks = "\n".join(line for block in BLOCK.finditer(text) for line in lines(block[1]))
    assert [reason for reason in LEFT_OUT if not re.search(reason, blocks, re.MULTILINE)] == []
    assert [long for long, _ in SHORTENED if not re.search(long, blocks)] == []


def test_there_is_a_shell() -> None:
    assert [name for name in ("bash", "curl", "git") if shutil.which(name) is None] == []
