"""The same scenario and seed lead to the same bytes, whatever the process is like and on each Python.

    .venv/bin/python -m pytest -m heavy tests/test_determinism.py

makes an environment of each newer Python that it finds, which takes a network and some minutes.
"""

import os
import shutil
import subprocess
import sys
from hashlib import sha256
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SCENARIO = ROOT / "scenarios" / "quickstart.yaml"


def trace_of(python: str, folder: Path, *flags: str, **env: str) -> str:
    """The digest of the trace that an interpreter writes."""
    path = folder / "trace.jsonl"
    given = ["-m", "ranksim", "run", str(SCENARIO), "--seed", "5", "--trace", str(path)]
    more = {"PYTHONPATH": str(ROOT / "src")} | env
    done = subprocess.run([python, *flags, *given], capture_output=True, text=True, env=os.environ | more)
    assert done.returncode == 0, done.stderr
    return sha256(path.read_bytes()).hexdigest()


@pytest.fixture(scope="module")
def expected(tmp_path_factory: pytest.TempPathFactory) -> str:
    return trace_of(sys.executable, tmp_path_factory.mktemp("expected"))


@pytest.mark.heavy
@pytest.mark.parametrize(
    ("flags", "env"),
    [
        ((), {"PYTHONHASHSEED": "1"}),
        (("-O",), {"PYTHONHASHSEED": "4294967295"}),
        ((), {"TZ": "Pacific/Apia", "LC_ALL": "C", "PYTHONUTF8": "0"}),
        (("-X", "dev"), {}),
    ],
)
def test_no_process_writes_another_trace(
    flags: tuple[str, ...], env: dict[str, str], expected: str, tmp_path: Path
) -> None:
    assert trace_of(sys.executable, tmp_path, *flags, **env) == expected


def newer(version: str) -> str | None:
    """An interpreter of a version that can make environments."""
    installed = sorted((Path.home() / ".pyenv" / "versions").glob(f"{version}.*/bin/python"))
    for name in filter(None, (shutil.which(f"python{version}"), *map(str, installed))):
        if subprocess.run([name, "-c", "import ensurepip, venv"], capture_output=True).returncode == 0:
            return name
    return None


@pytest.mark.heavy
@pytest.mark.parametrize("version", ["3.12", "3.13"])
def test_no_python_writes_another_trace(version: str, expected: str, tmp_path: Path) -> None:
    base = newer(version)
    if base is None:
        pytest.skip(f"there is no Python {version}")
    subprocess.run([base, "-m", "venv", str(tmp_path / "venv")], check=True)
    python = str(tmp_path / "venv" / "bin" / "python")
    install = [python, "-m", "pip", "install", "-q", "-c", str(ROOT / "constraints.txt"), str(ROOT)]
    subprocess.run(install, check=True)
    assert trace_of(python, tmp_path) == expected
