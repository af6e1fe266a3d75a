"""Compute the values of the charts of problems; templates/charts says how they are drawn and described."""

from collections.abc import Sequence

from pandas import DataFrame

from pipeline import paths
from pipeline.report.page.chart import Chart, Origin, draw
from pipeline.report.page.content import ProblemResults
from pipeline.report.results import GROUPS, VALUES, Sweeps, guess_warnings
from pipeline.report.suite_tables import HEADLINE

MODELS = {"adapted": "adapted", "source_only": "source only", "clip_only": "CLIP alone"}
BRANCHES = {"klda": "kernel LDA", "clip": "CLIP", "fused": "fusion"}
GAINS = ("calibrated", "source_only", "clip_zero_shot")  # methods in the overview
NAMED_CLASSES = 40  # maximum number of classes whose names are on the axes and the map
MOST_LISTED = 10  # maximum number of confusions in the table
MOST_DRAWN = 4000  # maximum number of cells; with hundreds of classes, the rarest confusions are left out
FEW_IMAGES = 20  # bins of confidence with fewer test images are drawn paler
PIXELS = (560, 340)  # size of the map on a desktop
LETTER, LINE = 8, 16  # width of a letter and height of a line of text in pixels


def problem_charts(results: ProblemResults) -> list[Chart]:
    """Return the charts of a problem, in the page's order."""
    charts = [
        accuracy_over_tasks(results),
        accuracy_matrix(results),
        forgetting(results),
        confusion(results),
        embedding_map(results),
        methods(results),
        weights(results),
        *(reliability(results, branch) for branch in BRANCHES),
    ]
    if sweeps := results.sweeps:
        charts += [sensitivity(results, setting, table) for setting, table in sweeps.accuracy.items()]
        charts.append(selection(results, sweeps))
    return [chart for chart in charts if chart is not None]


def accuracy_over_tasks(results: ProblemResults) -> Chart:
    """Draw A_k of the adapted model and of the references, which do not adapt."""
    table = results.tables["tasks"].rename(columns=MODELS)
    models = {name: name for name in MODELS.values() if name in table}
    last, others = table.iloc[-1], list(models)[1:]
    return draw(
        "tasks",
        _with_band(table, "adapted"),
        results.origin("tasks"),
        models=models,
        others=" and ".join(f"{name} with {last[name]} %" for name in others),
        n=results.metrics.test_images,
    )


def accuracy_matrix(results: ProblemResults) -> Chart:
    """Draw the accuracy on every task after every task."""
    table = results.tables["accuracy_matrix"]
    square = table.pivot_table(index="after_task", columns="task", values="accuracy")
    rows = square.astype(object).where(square.notna(), "").add_prefix("task ").rename_axis("after task").reset_index()
    return draw("matrix", table, results.origin("accuracy_matrix"), rows=rows)


def forgetting(results: ProblemResults) -> Chart | None:
    """Draw how far the accuracy on each task fell from its best; None if there is a single task."""
    table = results.tables["forgetting"]
    return None if table.empty else draw("forgetting", table, results.origin("forgetting"))


def confusion(results: ProblemResults) -> Chart:
    """Draw the confusion matrix in percent; each row adds up to 100."""
    cells = results.tables["confusion"]
    cells = cells[cells["images"] > 0]
    wrong = cells[cells["actual"] != cells["predicted"]]
    wrong = wrong.sort_values(["images", "actual", "predicted"], ascending=[False, True, True])
    names = _present_classes(results, {*cells["actual"], *cells["predicted"]})
    return draw(
        "confusion",
        cells.sort_values("images", ascending=False, kind="stable")[:MOST_DRAWN].sort_index(),
        results.origin("confusion"),
        rows=wrong[:MOST_LISTED],
        names=names,
        many=len(names) > NAMED_CLASSES,
        cells=len(cells),
    )


def _present_classes(results: ProblemResults, present: set[str]) -> list[str]:
    return [name for name in results.tables["classes"]["class"] if name in present]


def embedding_map(results: ProblemResults) -> Chart | None:
    """Draw target images on the plane of their principal components; None if the target is private."""
    table = results.tables["map"]
    if table.empty:
        return None
    wrong = (table["predicted"] != "") & (table["predicted"] != table["class"])
    names = _present_classes(results, set(table["class"]))
    return draw(
        "map",
        table.assign(predicted=table["predicted"].replace("", "–"), wrong=wrong),
        results.origin("map"),
        names=names,
        labels=_name_positions(table) if len(names) <= NAMED_CLASSES else [],
        height=PIXELS[1],
    )


def _name_positions(table: DataFrame) -> list[dict[str, object]]:
    """Return the position of each class's name: the middle of its images, or above it if there is no room."""
    span = (table[["x", "y"]].max() - table[["x", "y"]].min()).replace(0, 1)
    unit = span / list(PIXELS)
    middle = table.groupby("class")[["x", "y"]].median() / unit
    return [
        {"class": name, "x": round(x * unit["x"], 4), "y": round(y * unit["y"], 4)}
        for name, (x, y) in spread_labels({str(n): (x, y) for n, x, y in middle.itertuples()}).items()
    ]


def spread_labels(centres: dict[str, tuple[float, float]]) -> dict[str, tuple[float, float]]:
    """Return the positions of labels, in pixels, moved up until none overlap."""
    placed: dict[str, tuple[float, float]] = {}
    for name, (x, y) in sorted(centres.items(), key=lambda item: (item[1][1], item[0])):
        free = y
        for other, (other_x, other_y) in sorted(placed.items(), key=lambda item: item[1][1]):
            wide = LETTER * (len(name) + len(other)) / 2
            if abs(x - other_x) < wide and abs(free - other_y) < LINE:
                free = other_y + LINE
        placed[name] = (x, free)
    return placed


def methods(results: ProblemResults) -> Chart:
    """Draw A_T of every compared method that never rejects an image, the best on top."""
    ran = [method for method in results.comparison.methods.values() if not method.failed and not method.label_space]
    values = DataFrame(
        [(m.title, GROUPS[m.group], m.A_T, m.A_T_sd) for m in ran], columns=["method", "group", "A_T", "sd"]
    ).sort_values(["A_T", "method"], ascending=[False, True])
    return draw(
        "methods",
        _with_band(values, "A_T"),
        Origin(f"compare@{results.name}", paths.comparison(results.suite, results.name)),
        groups=[heading for heading in GROUPS.values() if heading in set(values["group"])],
        ceiling=GROUPS["ceiling"],
        n=results.comparison.test_images,
    )


def weights(results: ProblemResults) -> Chart:
    """Draw the accuracy of pseudo-labels against their weight."""
    table = results.tables["weights"]
    lowest, highest = (table[end].map("{:.4g}".format) for end in ("lowest", "highest"))
    values = table.assign(tenth=range(1, len(table) + 1), range=lowest + " to " + highest)
    return draw("weights", values, results.origin("weights"), auroc=results.metrics.weight_auroc)


def reliability(results: ProblemResults, branch: str) -> Chart:
    """Draw accuracy against confidence of one branch, with the diagonal that it should follow."""
    table = results.tables["reliability"]
    table = table[table["branch"] == branch]
    bins = table["from"].map("{:.0f}".format) + "–" + table["to"].map("{:.0f}".format)
    return draw(
        "reliability",
        table.assign(enough=table["images"] >= FEW_IMAGES, bin=bins),
        results.origin("reliability"),
        key=f"reliability-{branch}",
        branch=BRANCHES[branch],
        ece=results.metrics.ece.get(branch),
        guesses=branch == "clip" and any(line.startswith("CLIP") for line in guess_warnings(results.metrics, "")),
        few=FEW_IMAGES,
    )


def sensitivity(results: ProblemResults, swept: str, table: DataFrame) -> Chart:
    """Draw A_T against the number of features D or the kernel parameter sigma, on a logarithmic axis."""
    return draw(
        "sweep",
        _with_band(table, "A_T").assign(text=table[swept].map("{:g}".format)),
        Origin(f"sensitivity_{swept}@{results.name}", paths.sensitivity(results.suite, results.name) / f"{swept}.csv"),
        key=f"over-{swept}",
        swept=swept,
        n=results.metrics.test_images,
    )


def selection(results: ProblemResults, sweeps: Sweeps) -> Chart | None:
    """Draw A_T and every label-free score over the values of each setting; None if nothing was chosen."""
    if sweeps.choices.empty:
        return None
    scores = [name for name in sweeps.values.columns if name not in VALUES]
    cells = sweeps.values.melt(["setting", "value"], ["A_T", *scores], "score", "figure")
    group = cells.groupby(["setting", "score"], sort=False)["figure"]
    lowest, highest = group.transform("min"), group.transform("max")
    # from 0 to 1 within a setting, since no two scores have the same unit; ½ everywhere if a score is constant
    share = ((cells["figure"] - lowest) / (highest - lowest)).fillna(0.5)
    chosen = sweeps.choices.set_index(["setting", "score"])["chosen"].to_dict()
    chosen |= {(c.setting, "A_T"): c.best for c in sweeps.choices.itertuples()}
    is_chosen = [chosen.get((c.setting, c.score)) == c.value for c in cells.itertuples()]
    return draw(
        "selection",
        cells.assign(
            at=cells["setting"] + " = " + cells["value"],
            score=cells["score"].map(_score_title),
            text=cells["figure"].map("{:.4g}".format),
            share=share.round(4),
            taken=is_chosen,
        ),
        Origin(f"select@{results.name}", paths.selection(results.suite, results.name) / "values.csv"),
        rows=sweeps.choices.assign(score=sweeps.choices["score"].map(_score_title)),
        names=[_score_title(score) for score in ("A_T", *scores)],
        settings=list(dict.fromkeys(cells["setting"])),
    )


def _score_title(score: str) -> str:
    return "A_T, by labels" if score == "A_T" else score.replace("_", " ")


def gains(problems: Sequence[ProblemResults]) -> Chart | None:
    """Draw A_T with and without adapting for each problem; None if none of these methods was compared."""
    values = DataFrame(
        [
            (problem.title, HEADLINE[name], name != "clip_zero_shot", entry.A_T, entry.A_T_sd)
            for problem in problems
            for name in reversed(GAINS)  # the adapting method is drawn last, on top
            if (entry := problem.comparison.methods.get(name)) and not entry.failed
        ],
        columns=["problem", "method", "joined", "A_T", "sd"],
    )
    if values.empty:
        return None
    return draw(
        "gains",
        values,
        Origin("compare", paths.comparison(problems[0].suite, "PROBLEM")),
        names=[HEADLINE[name] for name in GAINS if HEADLINE[name] in set(values["method"])],
        problems=len(problems),
    )


def _with_band(values: DataFrame, mean: str) -> DataFrame:
    """Return the values with the ends of mean ± sd, clipped to 0 and 100."""
    low, high = values[mean] - values["sd"], values[mean] + values["sd"]
    return values.assign(low=low.clip(lower=0), high=high.clip(upper=100))
