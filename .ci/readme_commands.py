"""Print the N-th command of README.md's section "Install and run": readme_commands.py N (1 or 2).

A command is a fenced `sh` block. The section must hold exactly two, so that the README cannot drift
from what is run here.
"""

import re
import sys
from pathlib import Path

SECTION = "## Install and run"


def commands(readme: str) -> list[str]:
    """The fenced sh blocks of the section, in order."""
    if f"\n{SECTION}\n" not in readme:
        sys.exit(f'README.md: expected a section "{SECTION}"')
    section = readme.split(f"\n{SECTION}\n", 1)[1].split("\n## ", 1)[0]
    found = re.findall(r"^```sh\n(.*?)^```$", section, flags=re.MULTILINE | re.DOTALL)
    if len(found) != 2:
        sys.exit(f'README.md: expected two sh blocks below "{SECTION}", found {len(found)}')
    return [block.strip() for block in found]


if __name__ == "__main__":
    readme = Path(__file__).parents[1] / "README.md"
    print(commands(readme.read_text("utf-8"))[int(sys.argv[1]) - 1])
