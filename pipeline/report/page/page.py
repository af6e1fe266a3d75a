"""Render the page: one HTML file that loads nothing from the network and is forbidden to."""

import base64
import functools
import hashlib
from collections.abc import Mapping, Sequence
from importlib import metadata, resources
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined

from pipeline import commented_yaml, paths
from pipeline.report.page.pictures import cached_text
from pipeline.report.page.problem_charts import gains, problem_charts
from pipeline.report.page.stream_results import stream_charts
from pipeline.report.problem_figures import MEASURES
from pipeline.report.results import LabelSpaceFigures
from pipeline.report.table import Table, format_figure, is_mean


def render_page(content: Mapping[str, Any]) -> str:
    """Render the page as HTML from the content that stage `report` gives; the same content gives the same text."""
    scripts = (drawing_library(), _asset("report.js"))
    chart, policy, css = gains(content["problems"]), security_policy(scripts), _asset("report.css")
    page = _environment().get_template("page.html")
    return page.render(**content, gains=chart, policy=policy, css=css, scripts=scripts)


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
    functions = (commented_yaml.dump, format_figure, is_mean, means_first, problem_charts, stream_charts, unknown_rows)
    environment.globals |= {function.__name__: function for function in functions} | {"paths": paths}
    return environment


def _asset(name: str) -> str:
    return resources.files("pipeline.report.page").joinpath("assets", name).read_text("utf-8")


@functools.cache
def drawing_library() -> str:
    """Return Vega, Vega-Lite and vega-embed as one script that defines ``window.vegaEmbed``.

    It is part of the package vl-convert-python, so nothing is fetched, neither now nor when the page is opened.
    """
    import vl_convert

    options = {"snippet": "window.vegaEmbed = vegaEmbed;", "vl_version": "6.4"}
    version = metadata.version("vl-convert-python")
    bundle = cached_text((version, options), lambda: str(vl_convert.javascript_bundle(**options)))
    return bundle.replace("</script", "<\\/script").replace("<!--", "<\\!--")


def security_policy(scripts: Sequence[str]) -> str:
    """Return a Content-Security-Policy that allows only these scripts, pictures in the page itself, and no network."""
    digests = (base64.b64encode(hashlib.sha256(script.encode()).digest()).decode() for script in scripts)
    hashes = " ".join(f"'sha256-{digest}'" for digest in digests)
    return (
        f"default-src 'none'; script-src {hashes}; style-src 'unsafe-inline'; img-src data:; "
        "base-uri 'none'; form-action 'none'"
    )


def means_first(table: Table) -> Table:
    """Return the table with its means first, so that they are visible without scrolling."""
    return table.with_columns(sorted(table.columns, key=lambda column: not is_mean(column.key)))


def unknown_rows(space: LabelSpaceFigures) -> list[tuple[str, ...]]:
    """Return the measures after each task as rows of texts."""
    by_task = zip(*(space.per_task[measure] for measure in MEASURES), strict=True)
    return [
        (str(task), *("–" if value is None else format_figure(value) for value in values))
        for task, values in enumerate(by_task, start=1)
    ]
