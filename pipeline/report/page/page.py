"""The whole page: one HTML file that asks the network for nothing, and may not."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import resources

from pipeline.report.page import method_charts
from pipeline.report.page.markup import anchor, json_island, text
from pipeline.report.page.pictures import ProblemPictures
from pipeline.report.page.problem_results import ProblemResults
from pipeline.report.page.problem_section import figure, problem_section
from pipeline.report.page.provenance import Provenance, provenance_section
from pipeline.report.page.sortable_table import sortable_table
from pipeline.report.suite_tables import FULL
from pipeline.report.table import Table, rounded

EMPTY = "<p>params.yaml has no problems, so there is nothing to report yet.</p>"


@dataclass(frozen=True)
class PageContent:
    """All that the page shows. drawing: the JavaScript of the plotting library."""

    suite: str
    variant: str
    headline: Table | None
    methods: Sequence[Table]
    problems: Sequence[ProblemResults]
    pictures: Mapping[str, ProblemPictures]  # by problem
    album: Mapping[str, str]
    provenance: Provenance
    drawing: str


def asset(name: str) -> str:
    """Return a file of pipeline/report/page/assets."""
    return resources.files("pipeline.report.page").joinpath("assets", name).read_text("utf-8")


def page(content: PageContent) -> str:
    """Return the page."""
    scripts = (content.drawing, asset("report.js"))
    return (
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{text(policy(scripts))}">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        '<meta name="color-scheme" content="light dark">'
        f"<title>{text(content.suite)} · REFEREE report</title>"
        f'<link rel="icon" href="data:,"><style>{asset("report.css")}</style></head><body>'
        f'{_top(content)}<main id="main">{_body(content)}</main>'
        f"{json_island('album', content.album)}"
        + "".join(f"<script>{script}</script>" for script in scripts)
        + "</body></html>\n"
    )


def policy(scripts: Sequence[str]) -> str:
    """Return the content security policy: these scripts and no others, pictures from the page itself, no network."""
    hashes = " ".join(
        f"'sha256-{base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()}'"
        for script in scripts
    )
    return (
        f"default-src 'none'; script-src {hashes}; style-src 'unsafe-inline'; img-src data:; "
        "base-uri 'none'; form-action 'none'"
    )


def means_first(table: Table) -> Table:
    """Return the table with its means before the single problems, so that nobody has to scroll for them."""
    is_mean = [column.key == "mean" or column.key.endswith(".mean") for column in table.columns]
    return table.only(sorted(range(len(is_mean)), key=lambda place: not is_mean[place]))


def _lead(headline: Table, problems: int) -> str:
    """Return the one sentence to remember; nothing where the full method was not compared."""
    block = headline.blocks[-1]
    cells = dict(
        zip((column.key for column in headline.columns), block.rows[-1].cells, strict=True)
    )
    full, gain = cells.get(FULL), cells.get("gain")
    if full is None:
        return ""
    over = f"on average over {problems} problems" if problems > 1 else "final accuracy"
    by = "" if gain is None else f", {rounded(gain.mean, 1):+} points over the source model alone"
    spread = "" if full.sd is None else f" ± {rounded(full.sd, 1)}"
    return f"<b>{text(f'{rounded(full.mean, 1)}{spread} %')}</b> {text(f'{over}{by}')}"


def _top(content: PageContent) -> str:
    return (
        '<a class="skip" href="#main">Skip to the results</a>'
        f'<header><h1>REFEREE <span>{text(content.suite)}</span></h1><nav aria-label="Sections">'
        '<a href="#headline">Headline</a><a href="#methods">Methods</a><a href="#problems">Problems</a>'
        '<a href="#run">What was run</a></nav>'
        '<button type="button" id="theme">Dark</button></header>'
        "<noscript><p>The charts need JavaScript; every value is in the tables.</p></noscript>"
    )


def _body(content: PageContent) -> str:
    if content.headline is None:
        return EMPTY + provenance_section(content.provenance)
    links = {problem.name: anchor(problem.name) for problem in content.problems}
    gains = method_charts.gains({p.name: (p.title, p.methods) for p in content.problems})
    overview = ""
    if gains:
        overview = f'<div class="grid">{figure(gains, "suite")}</div>'
        overview += json_island("charts-suite", {gains.key: gains.spec})
    methods = "".join(
        sortable_table(means_first(table), {}, blocks="kind") for table in content.methods
    )
    sections = "".join(
        problem_section(problem, content.pictures[problem.name], is_open=place == 0)
        for place, problem in enumerate(content.problems)
    )
    return (
        '<section id="headline" aria-labelledby="headline-h"><h2 id="headline-h">Headline</h2>'
        f'<p class="lead">{_lead(content.headline, len(content.problems))}</p>'
        "<p>Source-free continual learning across domains: a model of the source, adapted to an unlabelled "
        "target task by task. A problem is called source-target; the charts show the variant "
        f"<b>{text(content.variant)}</b>.</p>"
        f"{sortable_table(content.headline, links)}{overview}</section>"
        f'<section id="methods" aria-labelledby="methods-h"><h2 id="methods-h">Every method</h2>{methods}</section>'
        '<section id="problems" aria-labelledby="problems-h"><h2 id="problems-h">Problem by problem</h2>'
        '<p class="buttons"><button type="button" id="open-all">Open all</button>'
        f'<button type="button" id="close-all">Close all</button></p>{sections}</section>'
        f"{provenance_section(content.provenance)}"
    )
