"""What happened task by task: accuracy, accuracy matrix, forgetting."""

from __future__ import annotations

from typing import Any

from pipeline.report.page.chart import (
    Chart,
    Spec,
    dot,
    kind,
    percent_floor,
    quantity,
    series,
    spec,
    tip,
)
from pipeline.report.page.heat_map import heat_map
from pipeline.report.page.problem_results import ProblemResults

SERIES = {"adapted": "adapted", "source_only": "source only", "clip_only": "CLIP alone"}
WRITTEN_TASKS = 8  # up to so many, cells carry their value
HEIGHT = 250
LEVEL = {"labelAngle": 0}


def accuracy_over_tasks(results: ProblemResults) -> Chart:
    """Draw A_k of the adapted model and of those that do not adapt."""
    there = [field for field in SERIES if field in results.tasks[0]]
    first, last = results.tasks[0], results.tasks[-1]
    others = " and ".join(f"{SERIES[f]} at {last[f]} %" for f in there if f != "adapted")
    return Chart(
        "tasks",
        "Accuracy after each task",
        f"The adapted model goes from {first['adapted']} % after the first task to {last['adapted']} % "
        f"after the last, where {others or 'nothing else'} ends.",
        _lines(results, there),
        "A_k: mean accuracy over the tasks seen so far, no task id given. The band is ± one standard deviation "
        "over the seeds.",
        results.origin("tasks.csv"),
        header=("after task", *(SERIES[f] for f in there), "sd of adapted"),
        rows=[
            (row["after_task"], *(float(row[f]) for f in there), float(row["sd"]))
            for row in results.tasks
        ],
        columns=5,
    )


def _lines(results: ProblemResults, there: list[str]) -> Spec:
    values: list[dict[str, Any]] = []
    for row in results.tasks:
        for field in reversed(there):  # the adapted one last, on top
            a, sd = float(row[field]), float(row["sd"]) if field == "adapted" else 0.0
            place = {"task": int(row["after_task"]), "who": SERIES[field], "A": a}
            values.append({**place, "low": max(0.0, a - sd), "high": min(100.0, a + sd)})
    scale = {"domain": [percent_floor([v["low"] for v in values]), 100], "zero": False}
    y = quantity("A", "accuracy so far, %", scale=scale)
    who = series("who", [SERIES[field] for field in there])
    tips = [tip("who", "model"), tip("task", "after task", "d"), tip("A", "accuracy, %", ".2f")]
    band = {
        "transform": [{"filter": "datum.who === 'adapted'"}],
        "mark": {"type": "errorband", "opacity": 0.18},
        "encoding": {"y": {**y, "field": "low"}, "y2": {"field": "high"}},
    }
    line = {"mark": {"type": "line", "strokeWidth": 2.5}, "encoding": {"y": y}}
    points = {"mark": dot(70), "encoding": {"y": y, "shape": who, "tooltip": tips}}
    return spec(
        values,
        height=HEIGHT,
        encoding={"x": kind("task", "after task", axis=LEVEL), "color": who},
        layer=[band, line, points],
    )


def accuracy_matrix(results: ProblemResults) -> Chart:
    """Draw the accuracy of every task after every task."""
    values: list[dict[str, Any]] = [
        {"after": int(r["after_task"]), "task": int(r["task"]), "a": float(r["accuracy"])}
        for r in results.matrix
    ]
    floor = percent_floor([v["a"] for v in values], step=10)
    tasks = max(v["after"] for v in values)
    drawn = heat_map(
        values,
        "a",
        x=kind("task", "on the test images of task", axis=LEVEL),
        y=kind("after", "after task"),
        scale={"domain": [floor, 100], "clamp": True},
        tips=[
            tip("after", "after task", "d"),
            tip("task", "on task", "d"),
            tip("a", "accuracy, %", ".2f"),
        ],
        height=HEIGHT,
        written=(".1f", (floor + 100) / 2) if tasks <= WRITTEN_TASKS else None,
    )
    worst = min(values, key=lambda v: v["a"])
    of = {(v["after"], v["task"]): v["a"] for v in values}
    numbers = range(1, tasks + 1)
    return Chart(
        "matrix",
        "Accuracy matrix",
        f"Heat map of {tasks} by {tasks} tasks; the lowest accuracy, {worst['a']} %, is on task {worst['task']} "
        f"after task {worst['after']}.",
        drawn,
        "A row: the model after that task. A column: the same test images over time; read downwards for forgetting.",
        results.origin("accuracy_matrix.csv"),
        header=("after task", *(f"task {j}" for j in numbers)),
        rows=[(k, *(of.get((k, j), "") for j in numbers)) for k in numbers],
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
    most = max(values, key=lambda v: v["forgotten"])
    worst = f"most was lost on task {most['task']}, {most['forgotten']} points."
    none = most["forgotten"] == 0
    scale = {"domainMin": 0, "domainMax": max(5.0, most["forgotten"])}
    tips = [
        tip("task", "task", "d"),
        tip("best", "at its best, %", ".2f"),
        tip("final", "in the end, %", ".2f"),
        tip("forgotten", "forgotten, points", ".2f"),
    ]
    drawn = spec(
        values,
        height=HEIGHT,
        mark={"type": "bar", "style": "bar"},
        encoding={
            "x": kind("task", "task", axis=LEVEL),
            "y": quantity("forgotten", "points lost", scale=scale),
            "tooltip": tips,
        },
    )
    return Chart(
        "forgetting",
        "Forgetting per task",
        f"Bars of {len(values)} tasks; {'no task lost anything.' if none else worst}",
        drawn,
        ("No task lost anything. " if none else "")
        + "Best accuracy a task ever had minus its accuracy after the last task, mean over the seeds.",
        results.origin("forgetting.csv"),
        header=("task", "at its best, %", "in the end, %", "forgotten"),
        rows=[(v["task"], v["best"], v["final"], v["forgotten"]) for v in values],
        columns=3,
    )
