"""What happened task by task: accuracy, accuracy matrix, forgetting."""

from __future__ import annotations

from pipeline.report.page.chart import Chart, band, chart_spec, percent_scale, tips
from pipeline.report.page.problem_results import ProblemResults

SERIES = {"adapted": "adapted", "source_only": "source only", "clip_only": "CLIP alone"}
WRITTEN_TASKS = 8  # up to so many tasks, cells carry their value
HEIGHT = 250
LEVEL = {"labelAngle": 0}


def accuracy_over_tasks(results: ProblemResults) -> Chart:
    """Draw A_k of the adapted model and of the models that do not adapt."""
    table = results.tables["tasks"]
    names = [name for name in SERIES if name in table]
    values = []
    for row in table.to_dict("records"):
        for name in reversed(names):  # the adapted model last, on top
            point = {"task": row["after_task"], "model": SERIES[name], "A": row[name]}
            values.append(point | band(row[name], row["sd"] if name == "adapted" else 0.0))
    first, last = table.iloc[0], table.iloc[-1]
    others = " and ".join(f"{SERIES[n]} with {last[n]} %" for n in names if n != "adapted")
    return Chart(
        "tasks",
        "Accuracy after each task",
        f"The adapted model starts with {first['adapted']} % after the first task and ends with "
        f"{last['adapted']} % after the last; {others or 'no other model'} for comparison.",
        chart_spec(
            "tasks",
            values,
            height=HEIGHT,
            scale=percent_scale([value["low"] for value in values]),
            models=[SERIES[name] for name in names],
        ),
        "A_k: mean accuracy over tasks 1 to k after task k, no task id given. The band is ± one standard "
        f"deviation over the seeds; {results.metrics.test_images:,} test images per seed.",
        results.origin("tasks"),
        header=("after task", *(SERIES[name] for name in names), "sd of adapted"),
        rows=table[["after_task", *names, "sd"]].astype(object).to_numpy().tolist(),
        columns=5,
    )


def accuracy_matrix(results: ProblemResults) -> Chart:
    """Draw the accuracy on every task after every task."""
    table = results.tables["accuracy_matrix"].drop(columns="of")
    (floor, _) = percent_scale(list(table["accuracy"]), step=10)["domain"]
    tasks = int(table["after_task"].max())
    axis = {"type": "ordinal", "sort": None}
    drawn = chart_spec(
        "heat_map",
        table.to_dict("records"),
        height=HEIGHT,
        field="accuracy",
        x={**axis, "field": "task", "title": "on the test images of task", "axis": LEVEL},
        y={**axis, "field": "after_task", "title": "after task"},
        scale={"domain": [floor, 100], "clamp": True},
        tips=tips(
            ("after_task", "after task", "d"),
            ("task", "on task", "d"),
            ("accuracy", "accuracy, %", ".2f"),
        ),
        lines=True,
        written=(".1f", (floor + 100) / 2) if tasks <= WRITTEN_TASKS else None,
    )
    worst = table.loc[table["accuracy"].idxmin()]
    square = table.pivot_table(index="after_task", columns="task", values="accuracy")
    square = square.astype(object).where(square.notna(), "").reset_index()
    return Chart(
        "matrix",
        "Accuracy matrix",
        f"Heat map of {tasks} by {tasks} tasks; the lowest accuracy, {worst['accuracy']} %, is on task "
        f"{worst['task']:g} after task {worst['after_task']:g}.",
        drawn,
        "A row is the model after that task, a column the test images of one task. Read a column downwards "
        "to see forgetting.",
        results.origin("accuracy_matrix"),
        header=("after task", *(f"task {task}" for task in square.columns[1:])),
        rows=square.to_numpy().tolist(),
        columns=4,
    )


def forgetting(results: ProblemResults) -> Chart | None:
    """Draw how far the accuracy on each task fell from its best; None where there is a single task."""
    table = results.tables["forgetting"]
    if table.empty:
        return None
    worst = table.loc[table["forgotten"].idxmax()]
    none = worst["forgotten"] == 0
    most = f"task {worst['task']:g} lost most, {worst['forgotten']} points."
    highest = max(5.0, float(worst["forgotten"]))
    return Chart(
        "forgetting",
        "Forgetting per task",
        f"Bars of {len(table)} tasks; {'no task lost anything.' if none else most}",
        chart_spec("forgetting", table.to_dict("records"), height=HEIGHT, highest=highest),
        ("No task lost anything. " if none else "")
        + "The best accuracy that a task ever had minus its accuracy after the last task, mean over the seeds.",
        results.origin("forgetting"),
        header=("task", "at its best, %", "in the end, %", "forgotten"),
        rows=table.astype(object).to_numpy().tolist(),
        columns=3,
    )
