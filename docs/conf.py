"""How the site is built from these pages: `scripts/site`."""

import ranksim

project, release = "ranksim", ranksim.__version__
extensions = ["myst_nb", "sphinx.ext.autodoc"]
myst_heading_anchors = 4
nb_execution_mode = "off"  # the notebooks are shown as they were last run; the gate runs them
default_role = "code"
autodoc_member_order = "bysource"
root_doc = "index"
html_theme = "furo"
html_title = "ranksim"
html_show_copyright = False
html_static_path = ["static"]
html_css_files = ["notebooks.css"]
