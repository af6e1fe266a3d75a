"""Stage `order@DOMAIN`: choose the order in which a domain's classes arrive, and keep it from run to run.

Writes orders/DOMAIN.json, which DVC leaves in place (`persist`) and git tracks: see `pipeline.datasets.kept_order`.
Reads only the names of the classes, so it needs neither images nor labels.
"""

from typing import Any

from pipeline import paths
from pipeline.config.params import Params
from pipeline.datasets import manifest_files
from pipeline.datasets.kept_order import (
    KeptOrder,
    longest_order,
    order_of_arrival,
    read_orders,
    restrict_order,
    write_orders,
)
from pipeline.errors import counted, listed
from pipeline.stage import Context, stage


def settings(params: Params, name: str) -> dict[str, Any]:
    """Return the settings that suite.yaml has for the order of a domain's classes."""
    dataset = params.datasets[params.domains[name].dataset]
    return {
        "classes_per_task": dataset.classes_per_task,
        "tasks": dataset.tasks and [list(task) for task in dataset.tasks],
        "class_order_seed": dataset.class_order_seed,
    }


@stage(per=("domains",), reads=("domains", "problems"), version=1, settings=settings)
def order(context: Context, name: str) -> str:
    """Append the classes that orders/DOMAIN.json does not have yet.

    All domains of a dataset, and both domains of a problem, share one order, decided by the first domain for which this
    stage runs. Their files are not dependencies and their names not settings, because an existing order never changes.
    """
    path, folder = paths.order(name), paths.manifest(name)
    names, order_settings = manifest_files.read_class_names(folder), dict(context.settings)
    order_settings["tasks"] = order_settings["tasks"] or manifest_files.read_source_tasks(folder)
    orders = read_orders(path)
    related_orders = [read_orders(paths.order(other)) for other in related_domains(context.params, name)]
    tasks = order_of_arrival(names, longest_order(order_settings, [orders, *related_orders]), **order_settings)
    others = [kept for kept in orders if kept.asked != order_settings]
    write_orders(path, [*others, KeptOrder(order_settings, tasks)])  # the last order is the one in force
    known = {name for task in longest_order(order_settings, [orders]) for name in task}
    new = [name for name in names if name not in known]
    text = f"{counted(len(names), 'class')}, {counted(len(restrict_order(tasks, names)), 'task')}, kept in {path}"
    return f"{text}; new classes arrive last: {listed(new)}" if known and new else text


def related_domains(params: Any, name: str) -> list[str]:
    """Return the other domains of a domain's dataset and of its problems."""
    dataset = params.domains[name].dataset
    domains = [key for key, domain in params.domains.items() if domain.dataset == dataset]
    for problem in params.problems.values():
        if name in (problem.source, problem.target):
            domains += [problem.source, problem.target]
    return [key for key in dict.fromkeys(domains) if key != name]
