"""Stage `evaluate@all@SUITE`: the few figures that `dvc metrics` and `dvc exp show` put on one screen.

Writes results/SUITE/metrics.json: the mean of A_T over the problems, "A_T±sd" of each problem, and D, sigma and method
with which these were made. They stand beside the numbers because DVC shows the file of the last run beside the
params.yaml of today. A problem that was evaluated with other parameters than the first one is left out, and with it the
mean.

Where a target has classes that the source lacks, `unknown` has for its problem, in percent: accuracy on shared classes,
share of unknown images that is rejected, H-score and AUROC after the last task, and the same after each task.
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
    """Return the problems, in the order in which they are shown."""
    return {"problems": list(params.problems)}


@stage(reads=("problems",), settings=settings)
def metrics(context: Context) -> str:
    """Write results/SUITE/metrics.json."""
    figures = suite_figures({name: read_evaluation(context.suite, name) for name in context.params.problems})
    write_json(paths.metrics(context.suite), figures)
    unknown = figures.pop("unknown", {})
    h_scores = {f"H-score of {name}": of["h_score"] for name, of in unknown.items()}
    return ", ".join(f"{name} {value}" for name, value in {**figures, **h_scores}.items()) or "no problems"


def suite_figures(evaluated: Mapping[str, ProblemFigures]) -> dict[str, Any]:
    """Return mean, problems and the parameters behind them; short names, for one screen."""
    if not evaluated:
        return {}
    parameters = next(iter(evaluated.values())).made_with
    alike = {name: one for name, one in evaluated.items() if not changed_parameters(parameters, one.made_with)}
    mean = {"mean": round(fmean(one.A_T for one in alike.values()), 2)}
    return {
        **(mean if len(alike) == len(evaluated) else {}),
        **{name: format_figure(one.A_T, one.A_T_sd, plus_minus="±") for name, one in alike.items()},
        **_unknown_figures(alike),
        "D": parameters["rff.D"],
        "sigma": parameters["rff.sigma"],
        "method": _method_name(parameters["method.variant"], parameters["method.options"]),
    }


def _method_name(variant: str, options: Mapping[str, Any]) -> str:
    """Return the variant and its options; of the default only the options, so that `dvc exp show` fits a screen."""
    changed = [f"{name}={value}" for name, value in options.items()]
    return " ".join(changed if changed and variant == "calibrated" else [variant, *changed])


def _unknown_figures(evaluated: Mapping[str, ProblemFigures]) -> dict[str, Any]:
    """Return how well images of unknown classes are told apart, of the problems that have such."""
    found = {}
    for name, one in evaluated.items():
        space = one.label_space
        if space is None or space.unknown is None:
            continue
        found[name] = {
            **{measure: getattr(space, measure) for measure in MEASURES},
            **{
                f"task {task + 1}": {measure: space.per_task[measure][task] for measure in MEASURES}
                for task in range(len(space.per_task["h_score"]))
            },
        }
    return {"unknown": found} if found else {}
