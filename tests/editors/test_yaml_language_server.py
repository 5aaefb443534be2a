"""What an editor's language server for YAML makes of our files: keys completed, a misspelt one found.

`npm` installs yaml-language-server into a temporary folder, so this is heavy and wants Node.
"""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import pytest
from typer.testing import CliRunner

from ranksim import cli

pytestmark = [
    pytest.mark.heavy,
    pytest.mark.skipif(shutil.which("npm") is None, reason="wants Node and npm"),
]
ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("language-server")
    words = ["npm", "install", "--no-fund", "--no-audit", "yaml-language-server"]
    subprocess.run(words, cwd=folder, capture_output=True, check=True, timeout=300)
    return folder / "node_modules/yaml-language-server/bin/yaml-language-server"


@pytest.mark.parametrize("where", ["shipped", "begun"])
def test_it_completes_a_key_and_finds_a_misspelt_one(where: str, server: Path, tmp_path: Path) -> None:
    file = ROOT / "scenarios" / "quickstart.yaml"
    if where == "begun":
        assert CliRunner().invoke(cli.app, ["init", str(tmp_path)]).exit_code == 0
        file = tmp_path / "scenarios" / "first.yaml"
    script = Path(__file__).with_name("complete.mjs")
    words = ["node", str(script), str(server), str(file)]
    told = subprocess.run(words, capture_output=True, text=True, check=True, timeout=120)
    found = json.loads(told.stdout)
    assert {"replications", "length", "policy"} <= set(found["keys"])
    assert any("Property lenght is not allowed" in error for error in found["errors"])
