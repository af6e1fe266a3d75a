"""What happened task by task: accuracy, accuracy matrix, forgetting."""

from __future__ import annotations

from typing import Any

from pipeline.report.page.chart import Chart, kind, percent_floor, quantity, series, spec, tip
from pipeline.report.page.problem_results import ProblemResults

SERIES = {"adapted": "adapted", "source_only": "source only", "clip_only": "CLIP alone"}


def accuracy_over_tasks(results: ProblemResults) -> Chart:
    """Draw A_k of the adapted model and of those that do not adapt."""
    values: list[dict[str, Any]] = []
    for row in results.tasks:
        sd = float(row["sd"])
        for field, title in SERIES.items():
            if field in row:
                a = float(row[field])
                low, high = (a - sd, min(100.0, a + sd)) if field == "adapted" else (a, a)
                values.append(
                    {"task": int(row["after_task"]), "who": title, "A": a, "low": low, "high": high}
                )
    floor = percent_floor([v["low"] for v in values])
    y = {"scale": {"domain": [floor, 100], "zero": False}}
    who = series("who", [title for field, title in SERIES.items() if field in results.tasks[0]])
    x = kind("task", "after task", axis={"labelAngle": 0})
    drawn = spec(
        values,
        height=250,
        encoding={"x": x, "color": who},
        layer=[
            {
                "transform": [{"filter": "datum.who === 'adapted'"}],
                "mark": {"type": "errorband", "opacity": 0.18},
                "encoding": {
                    "y": quantity("low", "accuracy so far, %", **y),
                    "y2": {"field": "high"},
                },
            },
            {
                "mark": {"type": "line", "strokeWidth": 2.5},
                "encoding": {
                    "y": quantity("A", "accuracy so far, %", **y),
                    "strokeDash": who,
                },
            },
            {
                "mark": {"type": "point", "filled": True, "size": 70, "opacity": 1},
                "encoding": {
                    "y": quantity("A", "accuracy so far, %", **y),
                    "shape": who,
                    "tooltip": [
                        tip("who", "model"),
                        tip("task", "after task", "d"),
                        tip("A", "accuracy, %", ".2f"),
                    ],
                },
            },
        ],
    )
    first, last = results.tasks[0], results.tasks[-1]
    others = ", ".join(
        f"{SERIES[f]} at {last[f]} %" for f in ("source_only", "clip_only") if f in last
    )
    return Chart(
        "tasks",
        "Accuracy after each task",
        f"The adapted model goes from {first['adapted']} % after the first task to {last['adapted']} % "
        f"after the last; {others} end there.".replace("; at", ";"),
        drawn,
        "A_k: mean accuracy over the tasks seen so far, no task id given. The band is ± one standard deviation "
        "over the seeds.",
        f"evaluate@{results.name}",
        f"results/tables/{results.name}/tasks.csv",
        ("after task", *(SERIES[f] for f in SERIES if f in first), "sd of adapted"),
        [
            (row["after_task"], *(float(row[f]) for f in SERIES if f in row), float(row["sd"]))
            for row in results.tasks
        ],
        columns=5,
    )


def heat_text(field: str, middle: float, form: str) -> list[dict[str, object]]:
    """Return the layers that write a heat map's values, each in a colour that reads on its cell."""
    return [
        {
            "transform": [{"filter": f"datum['{field}'] {test} {middle}"}],
            "mark": {"type": "text", "style": style},
            "encoding": {"text": {"field": field, "type": "quantitative", "format": form}},
        }
        for test, style in (("<", "on-low"), (">=", "on-high"))
    ]


def accuracy_matrix(results: ProblemResults) -> Chart:
    """Draw the accuracy of every task after every task."""
    values: list[dict[str, Any]] = [
        {"after": int(r["after_task"]), "task": int(r["task"]), "a": float(r["accuracy"])}
        for r in results.matrix
    ]
    floor = percent_floor([v["a"] for v in values], step=10)
    tasks = max(v["after"] for v in values)
    scale = {"domain": [floor, 100], "clamp": True}
    cells = {
        "mark": {"type": "rect", "style": "cell-rect"},
        "encoding": {
            "color": quantity("a", None, scale=scale, legend={"title": "%", "gradientLength": 140}),
            "tooltip": [
                tip("after", "after task", "d"),
                tip("task", "on task", "d"),
                tip("a", "accuracy, %", ".2f"),
            ],
        },
    }
    written = heat_text("a", (floor + 100) / 2, ".1f") if tasks <= 8 else []
    drawn = spec(
        values,
        height=250,
        encoding={
            "x": kind("task", "on the test images of task", axis={"labelAngle": 0}),
            "y": kind("after", "after task"),
        },
        layer=[cells, *written],
    )
    worst = min(values, key=lambda v: v["a"])
    return Chart(
        "matrix",
        "Accuracy matrix",
        f"Heat map of {tasks} by {tasks} tasks; the lowest accuracy, {worst['a']} %, is on task {worst['task']} "
        f"after task {worst['after']}.",
        drawn,
        "A row: the model after that task. A column: the same test images over time; read downwards for forgetting.",
        f"evaluate@{results.name}",
        f"results/tables/{results.name}/accuracy_matrix.csv",
        ("after task", *(f"task {j + 1}" for j in range(tasks))),
        [
            (
                k,
                *(
                    next((v["a"] for v in values if (v["after"], v["task"]) == (k, j)), "")
                    for j in range(1, tasks + 1)
                ),
            )
            for k in range(1, tasks + 1)
        ],
        columns=4,
    )


def forgetting(results: ProblemResults) -> Chart | None:
    """Draw how far each task fell from its best; nothing where there is a single task."""
    values: list[dict[str, Any]] = [
        {"task": int(r["task"]), **{key: float(r[key]) for key in ("best", "final", "forgotten")}}
        for r in results.forgetting
    ]
    if not values:
        return None
    drawn = spec(
        values,
        height=250,
        mark={"type": "bar", "style": "bar"},
        encoding={
            "x": kind("task", "task", axis={"labelAngle": 0}),
            "y": quantity(
                "forgotten",
                "points lost",
                scale={"domainMin": 0, "domainMax": max(5.0, *(v["forgotten"] for v in values))},
            ),
            "tooltip": [
                tip("task", "task", "d"),
                tip("best", "at its best, %", ".2f"),
                tip("final", "in the end, %", ".2f"),
                tip("forgotten", "forgotten, points", ".2f"),
            ],
        },
    )
    most = max(values, key=lambda v: v["forgotten"])
    return Chart(
        "forgetting",
        "Forgetting per task",
        f"Bars of {len(values)} tasks; most was lost on task {most['task']}, {most['forgotten']} points.",
        drawn,
        "Best accuracy a task ever had minus its accuracy after the last task, mean over the seeds.",
        f"evaluate@{results.name}",
        f"results/tables/{results.name}/forgetting.csv",
        ("task", "at its best, %", "in the end, %", "forgotten"),
        [(v["task"], v["best"], v["final"], v["forgotten"]) for v in values],
        columns=3,
    )
