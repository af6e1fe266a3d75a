"""Which kind of statistics the method's options ask for."""

from __future__ import annotations

from pipeline.method.printed_statistics import empty_printed
from pipeline.method.random_fourier_features import Basis
from pipeline.method.task_centred_statistics import empty_task_centred
from pipeline.method.task_statistics import Statistics, empty_exact
from pipeline.method.variants import MethodOptions


def empty_statistics(basis: Basis, options: MethodOptions, *, source: bool = False) -> Statistics:
    """Return the statistics of no task.

    Parameters
    ----------
    source : bool
        For the source. There the printed equations (9), (10) are the exact ones: a running average is a covariance.
    """
    if options.statistics == "task_centred":
        regularisation = options.regularisation(source=source)
        as_rows = regularisation.only_ridge and not options.source_covariance
        return empty_task_centred(basis.width, regularisation.ridge if as_rows else None)
    if options.statistics == "printed" and not source:
        return empty_printed(basis)
    return empty_exact(basis.width, options.arithmetic)
