"""What a new project starts with, or the check of a deployment in CI: `ranksim init`."""

from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path

from ranksim.core.editors import FOLDER, copy_schemas
from ranksim.core.errors import BadInput
from ranksim.core.files import write_file

KINDS = ("scenario", "policy", "catalogue", "study")
"""What a project is likely to write files of."""

NEXT = """
next:
{cd}  ranksim run scenarios/first.yaml     what the service allows and refuses, and whether that was expected
  pip install -r requirements.txt      pytest, and what ranksim.testing needs
  pytest                               the scenario and the tests; .github/workflows/ranksim.yml runs the same
"""


NEXT_OF_CHECK = """
next:
{cd}  give deployment.yaml the address of your deployment, and RANKSIM_KEY a key of it
  ranksim check --target deployment.yaml --plan-only     what would be done, and what these keys can decide
  give the repository the secret RANKSIM_KEY; .github/workflows/ranksim-check.yml does the rest every night
"""


def begin_project(folder: Path) -> str:
    """Write the files of a new project and return what to say. Raises BadInput where one is there already."""
    return _begin(folder, "project", KINDS, NEXT)


def begin_check(folder: Path) -> str:
    """Write a target file and what checks it in CI, and return what to say. Raises BadInput as well."""
    return _begin(folder, "project_check", ("target",), NEXT_OF_CHECK)


def _begin(folder: Path, start: str, kinds: tuple[str, ...], further: str) -> str:
    texts = {folder / name: text for name, text in _files(files("ranksim") / "data" / start)}
    schemas = [folder / FOLDER / f"{kind}.json" for kind in kinds]
    there = [str(path) for path in (*texts, *schemas) if path.exists()]
    if there:
        raise BadInput(f"init: {', '.join(there)} is there already; move it or give another directory")
    for path, text in texts.items():
        write_file(path, text)
    copy_schemas(folder, kinds)
    written = "".join(f"  {path}\n" for path in sorted([*texts, folder / FOLDER]))
    cd = "" if folder == Path() else f"  cd {folder}\n"
    return f"Written:\n{written}{further.format(cd=cd)}"


def _files(folder: Traversable, above: str = "") -> list[tuple[str, str]]:
    files = []
    for entry in folder.iterdir():
        name = f"{above}{entry.name}"
        if entry.is_file():
            path = name.replace("github/", ".github/", 1)  # what is hidden is not shipped
            files.append((path, entry.read_text(encoding="utf-8")))
        elif entry.name != "__pycache__":
            files += _files(entry, f"{name}/")
    return sorted(files)
