"""Stage `report`: write results/SUITE/report.html, one page with all results.

Reads the other stages' outputs under results/SUITE, and images if they are there. DVC does not cache the page, so it is
never pushed: it may contain thumbnails of images, and it names the git revision.
"""

from typing import Any

from pipeline import paths
from pipeline.config.params import Params
from pipeline.report.made_with import made_with
from pipeline.stage import TRACKED_SECTIONS, Context, stage
from pipeline.write_aside import write_text

SECTIONS = (
    *("compare", "data", "datasets", "domains", "language", "method", "models", "past"),
    *("problems", "refinement", "rff", "sensitivity", "sources", "steps", "swept", "views"),
    "vision",
)


def settings(params: Params) -> dict[str, Any]:
    """Return all parameters that the page shows."""
    return params.model_dump(mode="json", include=set(SECTIONS) - set(TRACKED_SECTIONS), exclude_none=True)


@stage(reads=SECTIONS, settings=settings)
def report(context: Context) -> str:
    """Write results/SUITE/report.html."""
    # imported here because stage `code` imports every stage and need not wait for pandas
    from pipeline.report.page.page import render_page

    html = render_page(page_content(context))
    path = paths.report(context.suite)
    write_text(path, html)
    return f"{path}, {len(html.encode()) / 1e6:.1f} MB"


def page_content(context: Context) -> dict[str, Any]:
    """Return the variables of pipeline/report/page/templates/page.html."""
    from pipeline.report.page import content, provenance
    from pipeline.report.page.pictures import read_pictures
    from pipeline.report.page.stream_results import read_streams
    from pipeline.report.suite import read_suite
    from pipeline.report.suite_tables import headline_table, method_tables

    params, suite, max_pixels = context.params, context.suite, context.params.data.max_pixels
    results = read_suite(suite, params.problems, params.domains)
    problems = [
        content.read_problem(suite, name, entry, results.comparisons[name], swept=name in params.swept)
        for name, entry in params.problems.items()
    ]
    album, code = dict[str, str](), paths.stage_code("report")
    pictures = {
        problem.name: read_pictures(
            problem.tables["shown"],
            problem.target,
            album,
            images=params.domains[problem.target].images,
            preprocessing=content.preprocessing_of(context.project, problem.target),
            views=params.domains[problem.target].views,
            settings=params.views.model_dump(),
            max_pixels=max_pixels,
            code=code.read_text("utf-8") if code.is_file() else None,
        )
        for problem in problems
    }
    # the image folder of each step, or None for the past steps, whose images are gone
    images = {key: params.domains[step.domain].images for key, step in params.steps.items()}
    streams = read_streams(suite, {**dict.fromkeys(params.past), **images}, album, max_pixels=max_pixels)
    return {
        "suite": suite,
        "variant": params.method.variant,
        "warnings": content.result_warnings(problems, made_with(params.selected())),
        "headline": headline_table(results) if problems else None,
        "methods": [part for table in method_tables(results) for part in table.parts()],
        "problems": problems,
        "pictures": pictures,  # by problem
        "streams": streams,
        "album": album,  # key of a picture -> data address
        "params": params.selected(),
        "revision": provenance.revision(),
        "hashes": provenance.store_hashes(),
        "figures": provenance.figures_digest(paths.figures(suite, params.problems)),
    }
