"""The documentation site: `make docs` builds it from README.md, docs/, the notebooks and the docstrings."""

import pipeline  # noqa: F401  the reference is made of the package that is installed

project = "REFEREE on cached features"
author = "The referee-pipeline authors"
extensions = ["myst_nb", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]

# The sources are the repository's own pages, so that links between them work on GitHub and here alike.
root_doc = "docs/site/index"
include_patterns = [
    "README.md",
    "CHANGELOG.md",
    "CONTRIBUTING.md",
    "docs/**",
    "weights/README.md",
    "weights/digits/MODEL_CARD.md",
    "pipeline/report/published.md",
]
exclude_patterns = ["docs/site/extra"]

myst_enable_extensions = []  # no mathematics: its renderer would come from the network
myst_heading_anchors = 4
nb_execution_mode = "off"  # notebooks keep their outputs; tests/docs/test_site.py executes them

default_role = "py:obj"
autodoc_member_order = "bysource"
autodoc_typehints = "none"  # types stand in the docstrings
napoleon_google_docstring = False
napoleon_use_ivar = True

html_theme = "furo"
html_title = project
html_extra_path = ["extra"]  # index.html, which leads to the first page
html_show_sourcelink = False
html_show_search_summary = False  # would fetch pages, which a browser refuses from the disk
html_copy_source = False
