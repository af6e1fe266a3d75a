"""Stage `report`: results/SUITE/report.html, one page of everything that was measured.

Reads what the stages wrote under results/SUITE, and images where there are any. The page is not cached, so it is never
pushed: it may hold thumbnails of images, and it names the git revision.
"""

from typing import Any

from pipeline import paths
from pipeline.config.params import Params
from pipeline.stage import BY_NAME, Context, stage
from pipeline.write_aside import write_text

SECTIONS = (
    *("compare", "data", "datasets", "domains", "language", "method", "models", "past"),
    *("problems", "refinement", "rff", "sensitivity", "sources", "steps", "swept", "views"),
    "vision",
)


def settings(params: Params) -> dict[str, Any]:
    """Return all that the page shows of the parameters."""
    return params.model_dump(mode="json", include=set(SECTIONS) - set(BY_NAME), exclude_none=True)


@stage(reads=SECTIONS, settings=settings)
def report(context: Context) -> str:
    """Write results/SUITE/report.html."""
    # Imported here: stage `code` imports every stage, and need not wait for pandas.
    from pipeline.report.page.content import page_content
    from pipeline.report.page.page import render_page

    html = render_page(page_content(context.params, context.project))
    path = paths.report(context.suite)
    write_text(path, html)
    return f"{path}, {len(html.encode()) / 1e6:.1f} MB"
