"""Stage `order@DOMAIN`: in which order a domain's classes arrive, kept from one time to the next.

Writes orders/DOMAIN.json, which DVC leaves in place (`persist`) and git carries: see `pipeline.datasets.kept_order`.
It reads the names of the classes alone, so nobody needs images or labels for it.
"""

from typing import Any

from pipeline import paths
from pipeline.config.params import Params
from pipeline.datasets import manifest_files
from pipeline.datasets.kept_order import KeptOrder, longest, order_of_arrival, present, read_orders, write_orders
from pipeline.errors import counted, listed
from pipeline.stage import Context, stage


def settings(params: Params, name: str) -> dict[str, Any]:
    """Return what suite.yaml asks of the order of a domain's classes."""
    dataset = params.datasets[params.domains[name].dataset]
    return {
        "classes_per_task": dataset.classes_per_task,
        "tasks": dataset.tasks and [list(task) for task in dataset.tasks],
        "class_order_seed": dataset.class_order_seed,
    }


@stage(per=("domains",), reads=("domains", "problems"), version=1, settings=settings)
def order(context: Context, name: str) -> str:
    """Extend orders/DOMAIN.json by the classes it does not have.

    The other domains of its dataset and of its problems have the same order: the first of them that this stage runs
    for decides it. Their files are no dependency, and which domains they are no setting: an order that is there stays.
    """
    path, folder = paths.order(name), paths.manifest(name)
    names, asked = manifest_files.read_class_names(folder), dict(context.settings)
    asked["tasks"] = asked["tasks"] or manifest_files.read_source_tasks(folder)
    own = read_orders(path)
    others = [read_orders(paths.order(other)) for other in related(context.params, name)]
    tasks = order_of_arrival(names, longest(asked, [own, *others]), **asked)
    # the one in force is the last one
    write_orders(path, [*(kept for kept in own if kept.asked != asked), KeptOrder(asked, tasks)])
    known = {name for task in longest(asked, [own]) for name in task}
    new = [name for name in names if name not in known]
    text = f"{counted(len(names), 'class')}, {counted(len(present(tasks, names)), 'task')}, kept in {path}"
    return f"{text}; new classes arrive last: {listed(new)}" if known and new else text


def related(params: Any, name: str) -> list[str]:
    """Return the other domains of a domain's dataset and of its problems."""
    dataset = params.domains[name].dataset
    found = [key for key, domain in params.domains.items() if domain.dataset == dataset]
    for problem in params.problems.values():
        if name in (problem.source, problem.target):
            found += [problem.source, problem.target]
    return [key for key in dict.fromkeys(found) if key != name]
