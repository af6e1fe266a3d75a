"""Whether the weights of pseudo-labels and the confidences of predictions can be trusted."""

from __future__ import annotations

from typing import Any

from pipeline.report.figures import format_figure
from pipeline.report.page.chart import Chart, chart_spec, percent_scale
from pipeline.report.page.problem_results import ProblemResults

BRANCH_TITLES = {"klda": "kernel LDA", "clip": "CLIP", "fused": "fusion"}
FEW = 20  # test images; a bin with fewer is drawn paler
HOW_TO_READ = (
    " On the dashed line, a confidence of 80 % means right 80 times in 100; a bar below the line is overconfident. "
    f"Pale bars have fewer than {FEW} test images."
)
HEIGHT = 260


def weights(results: ProblemResults) -> Chart:
    """Draw the accuracy of pseudo-labels over their weight."""
    values: list[dict[str, Any]] = [
        {
            "bin": f"{row['weight']:.3g}",
            "tenth": tenth,
            "range": f"{row['lowest']:.4g} to {row['highest']:.4g}",
            "n": row["images"],
            "a": row["accuracy"],
        }
        for tenth, row in enumerate(results.tables["weights"].to_dict("records"), start=1)
    ]
    auroc = results.metrics.weight_auroc
    answer = "All pseudo-labels are right or all are wrong, so weights cannot tell them apart."
    if auroc is not None:
        answer = (
            f"A right label weighs more than a wrong one in {format_figure(auroc)} % of all pairs "
            "(50 %: no better than chance)."
        )
    ends = ""
    if values:
        ends = f"Of the lightest pseudo-labels {values[0]['a']} % are right, of the heaviest {values[-1]['a']} %. "
    return Chart(
        "weights",
        "Do heavier pseudo-labels tend to be right?",
        ends + answer,
        chart_spec(
            "weights", values, height=HEIGHT, scale=percent_scale([value["a"] for value in values])
        ),
        f"{answer} Pseudo-labels that were kept, sorted by weight and cut into tenths (fewer where weights are equal), "
        "all seeds together.",
        results.origin("weights"),
        header=("tenth", "weight", "pseudo-labels", "right, %"),
        rows=[(v["tenth"], v["range"], v["n"], v["a"]) for v in values],
    )


def reliability(results: ProblemResults, branch: str) -> Chart:
    """Draw accuracy over confidence of one branch, with the diagonal it should follow."""
    table = results.tables["reliability"]
    table = table[table["branch"] == branch].drop(columns=["of", "branch"])
    table = table.assign(enough=table["images"] >= FEW)
    ece = results.metrics.ece.get(branch)
    error = "" if ece is None else f"Calibration error (ECE) {format_figure(ece)} %."
    if branch == "clip" and any(line.startswith("CLIP") for line in results.guessing()):
        error += " This branch guesses: that it knows so is no merit."
    first = branch == next(iter(BRANCH_TITLES))
    return Chart(
        f"reliability-{branch}",
        f"Reliability: {BRANCH_TITLES[branch]}",
        f"Accuracy over confidence in {len(table)} bins. {error}",
        chart_spec("reliability", table.to_dict("records"), height=HEIGHT),
        error + (HOW_TO_READ if first else ""),
        results.origin("reliability"),
        header=("confidence, %", "mean, %", "right, %", "test images"),
        rows=[
            (
                f"{row['from']:.0f}–{row['to']:.0f}",
                row["confidence"],
                row["accuracy"],
                row["images"],
            )
            for row in table.to_dict("records")
        ],
        columns=4,
    )
