"""What an installed package holds beside its modules."""

from __future__ import annotations

import tomllib
from glob import glob
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


def test_every_file_that_is_no_module_is_installed() -> None:
    package = ROOT / "src" / "ranksim"
    declared = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]["package-data"]
    installed = {
        name for given in declared["ranksim"] for name in glob(given, root_dir=package, recursive=True)
    }
    there = {str(path.relative_to(package)) for path in package.rglob("*") if path.is_file()}
    beside = {name for name in there if not name.endswith((".py", ".pyc"))}
    assert {"twin/facade/page/docs.html", "twin/facade/page/docs.js", "data/specification.yaml"} <= beside
    assert beside <= installed
