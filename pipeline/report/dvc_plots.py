"""Write the HTML template of `dvc plots`, .dvc/plots/page.html, which contains the drawing library.

DVC's own template loads Vega from a server and stays blank without a network, so .dvc/config names this one. After
changing the pinned version of vl-convert-python, write it again: ``python -m pipeline.report.dvc_plots``.
"""

from pathlib import Path

from pipeline.report.page.page import drawing_library

PAGE = Path(".dvc/plots/page.html")
FRAME = """<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
{{refresh_tag}}
<title>Plots of the results</title>
<style>
body {{ margin: 1.5rem; font-family: system-ui, sans-serif; }}
body {{ display: flex; flex-wrap: wrap; gap: 2rem; align-items: flex-start; }}
</style>
<script>{script}</script>
</head>
<body>
{{plot_divs}}
</body>
</html>
"""


def plots_page() -> str:
    """Return the template that DVC fills with its plots; DVC adds no scripts, as there is no placeholder for them."""
    return FRAME.format(script=drawing_library())


if __name__ == "__main__":
    PAGE.write_text(plots_page(), encoding="utf-8")
