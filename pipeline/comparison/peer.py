"""The two forms of a peer: fitted to the source with true labels, or to the target with pseudo-labels."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

from pipeline.comparison.compared_method import ComparedMethod
from pipeline.comparison.labelled_tasks import TaskRows, pseudo_labelled_tasks, source_tasks
from pipeline.method.rows import Labels
from pipeline.problem.seed import Seed

Fitted = TypeVar("Fitted")
Fallback = Callable[[], Sequence[Fitted]]
Fit = Callable[[Seed, Iterable[TaskRows], Fallback[Fitted] | None], list[Fitted]]


def peer_methods(
    name: str, title: str, fit: Fit[Fitted], predict: Callable[[Seed, list[Fitted]], list[Labels]]
) -> dict[str, ComparedMethod]:
    """Return a peer's two forms by their names, for the METHODS of its file.

    Parameters
    ----------
    name : str
        Name of the form that is fitted to the source; the other one has ``-pseudo`` at its end.
    title : str
        Name in tables.
    fit : callable
        ``fit(seed, tasks, fallback)`` folds in one task after another and returns what was fitted after (or in)
        each. ``fallback()`` returns the same of the source, to stand in for classes without a pseudo-labelled row;
        call it only if there are any. It is None when the source itself is fitted.
    predict : callable
        ``predict(seed, fitted)`` returns the classes (n,) of the test rows after each task.

    Returns
    -------
    dict of str to ComparedMethod
        Both forms are source-free: of the source only what ``fit`` returned is used.
    """

    def source(seed: Seed) -> list[Fitted]:
        return seed.shared(f"{name}: source", lambda: fit(seed, source_tasks(seed), None))

    def pseudo(seed: Seed) -> list[Fitted]:
        return fit(seed, pseudo_labelled_tasks(seed), lambda: source(seed))

    return {
        name: ComparedMethod(lambda seed: predict(seed, source(seed)), title, "peer"),
        f"{name}-pseudo": ComparedMethod(lambda seed: predict(seed, pseudo(seed)), f"{title}, pseudo-labels", "peer"),
    }
