"""Stage `evaluate@all@SUITE`: collect the few figures that `dvc metrics` and `dvc exp show` fit on one screen.

Writes results/SUITE/metrics.json: the mean of A_T over the problems, "A_T±sd" of each problem, and the D, sigma and
method used. These are repeated here because DVC shows the figures of the last run beside today's params.yaml. Problems
that were evaluated with other parameters than the first one are left out, and then so is the mean.

If a target has classes that the source lacks, `unknown` gives for its problem, in percent, the accuracy on shared
classes, the share of unknown images that is rejected, H-score and AUROC, after the last task and after each task.
"""

from collections.abc import Mapping
from statistics import fmean
from typing import Any

from pipeline import paths
from pipeline.config.params import Params
from pipeline.report.made_with import changed_parameters
from pipeline.report.problem_figures import MEASURES
from pipeline.report.results import ProblemFigures, read_evaluation
from pipeline.report.table import format_figure
from pipeline.stage import Context, stage
from pipeline.write_aside import write_json


def settings(params: Params) -> dict[str, Any]:
    """Return the problems in display order."""
    return {"problems": list(params.problems)}


@stage(reads=("problems",), settings=settings)
def metrics(context: Context) -> str:
    """Write results/SUITE/metrics.json."""
    figures = suite_figures({name: read_evaluation(context.suite, name) for name in context.params.problems})
    write_json(paths.metrics(context.suite), figures)
    unknown = figures.pop("unknown", {})
    h_scores = {f"H-score of {name}": scores["h_score"] for name, scores in unknown.items()}
    return ", ".join(f"{name} {value}" for name, value in {**figures, **h_scores}.items()) or "no problems"


def suite_figures(evaluated: Mapping[str, ProblemFigures]) -> dict[str, Any]:
    """Return the mean, the figure of each problem and the parameters, under names short enough for one screen."""
    if not evaluated:
        return {}
    parameters = next(iter(evaluated.values())).made_with
    alike = {name: entry for name, entry in evaluated.items() if not changed_parameters(parameters, entry.made_with)}
    mean = {"mean": round(fmean(entry.A_T for entry in alike.values()), 2)}
    return {
        **(mean if len(alike) == len(evaluated) else {}),
        **{name: format_figure(entry.A_T, entry.A_T_sd, plus_minus="±") for name, entry in alike.items()},
        **_unknown_figures(alike),
        "D": parameters["rff.D"],
        "sigma": parameters["rff.sigma"],
        "method": _method_name(parameters["method.variant"], parameters["method.options"]),
    }


def _method_name(variant: str, options: Mapping[str, Any]) -> str:
    """Return the variant and its changed options, or only the options of the default variant to keep columns short."""
    changed = [f"{name}={value}" for name, value in options.items()]
    return " ".join(changed if changed and variant == "calibrated" else [variant, *changed])


def _unknown_figures(evaluated: Mapping[str, ProblemFigures]) -> dict[str, Any]:
    """Return the measures of rejecting unknown classes, for the problems whose target has unknown classes."""
    by_problem = {}
    for name, figures in evaluated.items():
        space = figures.label_space
        if space is None or space.unknown is None:
            continue
        by_problem[name] = {
            **{measure: getattr(space, measure) for measure in MEASURES},
            **{
                f"task {task + 1}": {measure: space.per_task[measure][task] for measure in MEASURES}
                for task in range(len(space.per_task["h_score"]))
            },
        }
    return {"unknown": by_problem} if by_problem else {}
