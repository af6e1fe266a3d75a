"""Define `ComparedMethod`: a method's function and its description in tables."""

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

    # takes a `Seed`; returns one array of shape (n,) per task: the predicted class of every test row after that task,
    # among the classes seen so far
    run: Callable[[Seed], list[Labels]]
    title: str  # name in tables; it mentions any important departure from the method's paper
    group: Group  # section of the tables
    # whether source rows are kept or read again after the source has been fitted; if so, it is not source-free
    source_samples: bool = False
    # answers for the test rows after each task, for a method that may answer `unknown`. It is run only if the target
    # has classes that the source lacks
    answers: Callable[[Seed], list[Answers]] | None = None


def rejecting_method(answers: Callable[[Seed], list[Answers]], title: str, group: Group) -> ComparedMethod:
    """Return a method that may answer `unknown`; its ``run`` returns `UNKNOWN` for the rejected rows."""
    return ComparedMethod(lambda seed: [answer.classes() for answer in answers(seed)], title, group, answers=answers)
