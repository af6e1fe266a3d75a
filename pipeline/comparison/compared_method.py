"""What the comparison needs to know of a method: its function, and what a table says about it."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from pipeline.method.continual_metrics import Answers
from pipeline.method.rows import Labels
from pipeline.problem.seed import Seed

Group = Literal["reference", "ablation", "referee", "peer", "head", "ceiling"]


@dataclass(frozen=True)
class ComparedMethod:
    """A method of the comparison."""

    # takes a `Seed`; returns a list with one array of shape (n,) per task: the class predicted for every test row
    # once that task has been learned, among the classes seen by then
    run: Callable[[Seed], list[Labels]]
    title: str  # name in tables. A method that departs from its paper in a way that matters says so here
    group: Group  # section of the tables
    # whether source rows are read, or kept, once the source has been fitted: then it is not source-free
    source_samples: bool = False
    # for a method that may answer `unknown`: what it says of every test row after each task. Such a method is run only
    # where the target has classes that the source lacks
    answers: Callable[[Seed], list[Answers]] | None = None


def rejecting_method(answers: Callable[[Seed], list[Answers]], title: str, group: Group) -> ComparedMethod:
    """Return a method that may answer `unknown`; its ``run`` returns `UNKNOWN` for such rows."""
    return ComparedMethod(lambda seed: [one.classes() for one in answers(seed)], title, group, answers=answers)
