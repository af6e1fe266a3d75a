"""Stage `tasks@DOMAIN`: assign every image to a task and, for each seed, to the train or test images.

Writes tasks.csv and classes.csv of cache/manifests/DOMAIN/tasks. Reads only the manifest and the order of the classes,
so seeds, fractions and the order can be changed without the images.
"""

from dataclasses import replace
from typing import Any

from pipeline import paths
from pipeline.config.params import Params
from pipeline.datasets import kept_order, manifest_files
from pipeline.datasets.label_spaces import label_space, target_tasks
from pipeline.datasets.task_files import write_tasks
from pipeline.datasets.tasks import arrange
from pipeline.errors import InputError, counted
from pipeline.stage import Context, stage


def settings(params: Params, name: str) -> dict[str, Any]:
    """Return the settings that decide a domain's tasks and splits, with only the label spaces that a problem names."""
    dataset = params.datasets[params.domains[name].dataset]
    problems = [p for p in params.problems.values() if name in (p.source, p.target)]
    named = sorted({p.label_space for p in problems if p.label_space is not None})
    lists = {space: (dataset.label_spaces or {})[space].members() for space in named}
    return {
        **({"label_spaces": lists} if lists else {}),
        "seeds": list(params.data.seeds),
        "test_fraction": params.data.test_fraction,
    }


@stage(per=("domains",), version=1, settings=settings)
def tasks(context: Context, name: str) -> str:
    """Write cache/manifests/DOMAIN/tasks."""
    folder = paths.manifest(name)
    arrangement = dict(context.settings)
    spaces = arrangement.pop("label_spaces", {})
    names = manifest_files.read_class_names(folder)
    orders = kept_order.read_orders(paths.order(name))
    if not orders:
        raise InputError(f"{paths.order(name)}: no such file, or it is empty; run dvc repro order@{name}")
    order = kept_order.restrict_order(orders[-1].tasks, names)
    rows = list(manifest_files.iterate_labelled(folder))
    labels, digests = [name for name, _ in rows], [sha256 for _, sha256 in rows]
    classes, splits = arrange(name, order, labels, digests, **arrangement)
    parts = {
        space: label_space(f"suite.yaml: datasets.*.label_spaces.{space}", classes, **lists)
        for space, lists in spaces.items()
    }
    splits = replace(splits, spaces={space: target_tasks(members, labels) for space, members in parts.items()})
    write_tasks(splits, classes, folder, parts)
    return f"{counted(classes[-1].task + 1, 'task')}, {counted(len(splits.seeds), 'seed')}"
