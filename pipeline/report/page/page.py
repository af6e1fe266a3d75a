"""The whole page: one HTML file that loads nothing from the network, and may not."""

import base64
import functools
import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import metadata, resources

from jinja2 import Environment, PackageLoader, StrictUndefined

from pipeline.report.figures import format_figure
from pipeline.report.kept_text import kept_text
from pipeline.report.page.pictures import ProblemPictures
from pipeline.report.page.problem_charts import gains, problem_charts
from pipeline.report.page.problem_results import ProblemResults
from pipeline.report.page.provenance import Provenance
from pipeline.report.page.stream_results import StreamResults, stream_charts
from pipeline.report.problem_figures import MEASURES
from pipeline.report.results import LabelSpaceFigures
from pipeline.report.suite_tables import FULL
from pipeline.report.table import Table, is_mean


@dataclass(frozen=True)
class PageContent:
    """Everything that the page shows."""

    suite: str
    variant: str
    headline: Table | None  # None where the suite has no problems
    methods: Sequence[Table]  # the comparison, one table per dataset
    problems: Sequence[ProblemResults]
    pictures: Mapping[str, ProblemPictures]  # by problem
    album: Mapping[str, str]  # key of a picture -> data address
    provenance: Provenance
    drawing: str  # the JavaScript of the plotting library, from `drawing_library`
    streams: Sequence[StreamResults] = ()
    warnings: Sequence[str] = ()  # above everything else


def render_page(content: PageContent) -> str:
    """Return the page as HTML; the same content gives the same text."""
    scripts = (content.drawing, _asset("report.js"))
    template = _environment().get_template("page.html")
    return template.render(
        content=content,
        policy=security_policy(scripts),
        css=_asset("report.css"),
        scripts=scripts,
        lead=lead(content.headline, len(content.problems)) if content.headline else None,
        gains=gains(content.problems),
    )


def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader("pipeline.report.page", "templates"),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=StrictUndefined,
    )
    compact = {"ensure_ascii": False, "separators": (",", ":"), "allow_nan": False}
    environment.policies["json.dumps_kwargs"] = compact
    functions = (format_figure, is_mean, means_first, problem_charts, stream_charts, unknown_rows)
    environment.globals |= {function.__name__: function for function in functions}
    return environment


def _asset(name: str) -> str:
    return resources.files("pipeline.report.page").joinpath("assets", name).read_text("utf-8")


@functools.cache
def drawing_library() -> str:
    """Return Vega, Vega-Lite and vega-embed as one script, which defines ``vegaEmbed`` on the window.

    It lies inside the package vl-convert-python: nothing is fetched, now or when the page is opened.
    """
    import vl_convert

    of = {"snippet": "window.vegaEmbed = vegaEmbed;", "vl_version": "6.4"}
    bundle = kept_text((metadata.version("vl-convert-python"), of), lambda: str(vl_convert.javascript_bundle(**of)))
    return bundle.replace("</script", "<\\/script").replace("<!--", "<\\!--")


def security_policy(scripts: Sequence[str]) -> str:
    """Return the Content-Security-Policy: these scripts and no others, pictures in the page itself, no network."""
    hashes = " ".join(
        f"'sha256-{base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()}'" for script in scripts
    )
    return (
        f"default-src 'none'; script-src {hashes}; style-src 'unsafe-inline'; img-src data:; "
        "base-uri 'none'; form-action 'none'"
    )


def lead(headline: Table, problems: int) -> tuple[str, str] | None:
    """Return the headline figure and what it is; None where the full method was not compared."""
    cells = headline.rows()[-1].cells
    full, gain = cells.get(FULL), cells.get("gain")
    if full is None:
        return None
    over = f"on average over {problems} problems" if problems > 1 else "final accuracy"
    by = f", {gain.text(signed=True)} points over the source model alone" if gain else ""
    return full.text(), over + by


def means_first(table: Table) -> Table:
    """Return the table with its means before the single problems, visible without scrolling."""
    return table.with_columns(sorted(table.columns, key=lambda column: not is_mean(column.key)))


def unknown_rows(space: LabelSpaceFigures) -> list[tuple[str, ...]]:
    """Return the measures after each task as the texts of a table's rows."""
    by_task = zip(*(space.per_task[measure] for measure in MEASURES), strict=True)
    return [
        (str(task), *("–" if value is None else format_figure(value) for value in values))
        for task, values in enumerate(by_task, start=1)
    ]
