"""How the site is built from these pages: `scripts/site`."""

from typing import Any

import ranksim

project, release = "ranksim", ranksim.__version__
extensions = ["myst_nb", "sphinx.ext.autodoc"]
myst_heading_anchors = 4
nb_execution_mode = "off"  # the notebooks are shown as they were last run; the gate runs them
default_role = "code"
smartquotes = False  # what is to be copied, such as --replications, stays what it is
autodoc_member_order = "bysource"
root_doc = "index"
html_theme = "furo"
html_title = "ranksim"
html_show_copyright = False
html_static_path = ["static"]
html_css_files = ["notebooks.css"]


def keep_examples(app: Any, what: str, name: str, one: object, options: object, lines: list[str]) -> None:
    """Mark what stands indented in a docstring as code, whose lines are kept; else it is a quote."""
    before = list(lines)
    lines.clear()
    for number, line in enumerate(before):
        first = line.startswith("    ") and (not number or not before[number - 1].strip())
        if first and not within_code(lines):
            lines += ["::", ""]
        lines.append(line)


def within_code(lines: list[str]) -> bool:
    """Return whether an indented line after these goes on with a block of code, or with a list's item."""
    above = next((line for line in reversed(lines) if line.strip()), "")
    return above.endswith("::") or above.startswith((" ", "- ", "* "))


def setup(app: Any) -> None:
    """Have docstrings read so, as Sphinx asks for it."""
    app.connect("autodoc-process-docstring", keep_examples)
