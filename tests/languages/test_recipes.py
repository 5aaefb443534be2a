"""The clients of examples/clients in other languages, tested by the tools of these."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
CLIENTS = ROOT / "examples" / "clients"
JUNIT = Path("/usr/share/java/junit-platform-console-standalone.jar")  # Debian's package junit5


@pytest.fixture
def clients(tmp_path: Path) -> Path:
    """A copy of the clients, and a `ranksim` that is this one."""
    shutil.copytree(CLIENTS, tmp_path, dirs_exist_ok=True, ignore=shutil.ignore_patterns("node_modules"))
    command = tmp_path / "bin" / "ranksim"
    command.parent.mkdir()
    command.write_text(f'#!/bin/sh\nexec {sys.executable} -m ranksim "$@"\n')
    command.chmod(0o755)
    return tmp_path


def run(folder: Path, *words: str) -> str:
    more = {
        "PATH": f"{folder.parent / 'bin'}{os.pathsep}{os.environ['PATH']}",
        "PYTHONPATH": os.pathsep.join(entry for entry in sys.path if entry),
    }
    done = subprocess.run(
        words, cwd=folder, capture_output=True, text=True, timeout=600, check=False, env=os.environ | more
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_the_page_shows_what_is_run() -> None:
    page = (ROOT / "docs" / "languages.md").read_text("utf-8")
    blocks = re.findall(r"^```\w+ title=(\S+)\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    assert len(blocks) == 5
    for name, text in blocks:
        for part in re.split(r"\n\n(?=    @Test)", text.strip("\n")):
            assert part in (CLIENTS / name).read_text("utf-8"), name


@pytest.mark.heavy
@pytest.mark.skipif(shutil.which("npm") is None, reason="wants Node and npm")
def test_vitest(clients: Path) -> None:
    run(clients / "typescript", "npm", "install", "--no-fund", "--no-audit")
    assert "9 passed" in run(clients / "typescript", "node_modules/.bin/vitest", "run", "--no-color")


@pytest.mark.heavy
@pytest.mark.skipif(shutil.which("npm") is None, reason="wants Node and npm")
def test_jest(clients: Path) -> None:
    """The same tests, but for the import of what is global here; configured as the page says."""
    folder, tests = clients / "typescript", clients / "typescript" / "client.test.ts"
    tests.write_text(re.sub(r"import .* from \"vitest\".*\n", "", tests.read_text("utf-8")), "utf-8")
    config = {"transform": {"\\.ts$": "@swc/jest"}, "extensionsToTreatAsEsm": [".ts"]}
    (folder / "package.json").write_text(json.dumps({"private": True, "type": "module", "jest": config}))
    wanted = ("jest@29", "@swc/jest@0.2", "@swc/core@1", "stripe@17")
    run(folder, "npm", "install", "--no-fund", "--no-audit", *wanted)
    run(
        folder,
        "node",
        "--experimental-vm-modules",
        "node_modules/.bin/jest",
        "--json",
        "--outputFile=out.json",
    )
    assert json.loads((folder / "out.json").read_text())["numPassedTests"] == 9


@pytest.mark.heavy
@pytest.mark.skipif(shutil.which("go") is None, reason="wants Go")
def test_go(clients: Path) -> None:
    run(clients / "go", "go", "vet", "./...")
    assert run(clients / "go", "go", "test", "-v", "./...").count("--- PASS: ") == 9


@pytest.mark.heavy
@pytest.mark.skipif(
    shutil.which("javac") is None or not JUNIT.exists(), reason="wants a JDK and Debian's junit5"
)
def test_junit(clients: Path) -> None:
    classes = f"{JUNIT.parent}/*{os.pathsep}."
    run(clients / "java", "javac", "-cp", classes, "ClientTest.java")
    launcher = "org.junit.platform.console.ConsoleLauncher"
    said = run(
        clients / "java", "java", "-cp", classes, launcher, "--scan-classpath", ".", "--disable-banner"
    )
    assert re.search(r"\b3 tests successful\b", said)
