"""Paths of all stage outputs in cache/ and results/.

Caches are named after domains, models and problems. Each suite has its own results folder, so that switching suites
does not touch the results of the others. Paths are relative to the project's folder, in which every stage runs.
"""

from collections.abc import Iterable
from pathlib import Path

CACHE = Path("cache")
CODE = CACHE / "code"
RESULTS = Path("results")
SCRATCH = Path(".referee/scratch")  # temporary files of running stages; safe to delete when none runs
# Rows kept from an interrupted `embed`. They are not a stage output, so that DVC neither tracks nor deletes them.
PROGRESS = Path(".referee/progress")
REPORT_CACHE = Path(".referee/kept")  # parts of earlier reports, reused if unchanged; safe to delete


def stage_code(stage: str, *keys: str) -> Path:
    """Return the path of a stage's hidden dependencies: its code or version, settings and defaults."""
    return CODE / f"{'-'.join((stage, *keys))}.json"


def manifest(domain: str) -> Path:
    """Return the folder of a domain's manifest, with images, labels, names, tasks and report.json."""
    return CACHE / "manifests" / domain


def order(domain: str) -> Path:
    """Return the path of a domain's class order, tracked by git so that a new class does not move the others."""
    return Path("orders") / f"{domain}.json"


def model_identity(model: str) -> Path:
    """Return the path of the record of a model's weights."""
    return CACHE / "models" / f"{model}.json"


def embeddings(domain: str, model: str) -> Path:
    """Return the path of the embeddings of a domain's images by a model."""
    return CACHE / "embeddings" / domain / f"{model}.zarr"


def prompts(domain: str) -> Path:
    """Return the path of the text embeddings of a domain's classes."""
    return CACHE / "prompts" / f"{domain}.zarr"


def bases(source: str) -> Path:
    """Return the path of the recipes of a source's random Fourier bases, one per seed."""
    return CACHE / "bases" / f"{source}.json"


def source_model(source: str, label_space: str | None = None) -> Path:
    """Return the path of a source's statistics and classifiers after each task, all that a target may read of it.

    The model of a label space, fitted without the target's private classes, is inside.
    """
    path = CACHE / "source" / f"{source}.zarr"
    return path / "label_spaces" / f"{label_space}.zarr" if label_space else path


def target_model(problem: str) -> Path:
    """Return the path of a problem's adapted classifiers after each task, and the final labels behind them."""
    return CACHE / "target" / f"{problem}.zarr"


def stream_state(step: str) -> Path:
    """Return the path of a stream's state after a step, all that the next step reads of the earlier ones."""
    return CACHE / "streams" / f"{step}.zarr"


def probe(suite: str, domain: str) -> Path:
    """Return the path of the figures that `probe` computes from a domain's embeddings."""
    return RESULTS / suite / "probes" / f"{domain}.json"


def basis_error(suite: str, source: str) -> Path:
    """Return the path of the errors of a source's bases in approximating their kernel."""
    return RESULTS / suite / "bases" / f"{source}.json"


def problems(suite: str) -> Path:
    """Return the folder with one folder of results per problem, on which `tables` and `report` depend."""
    return RESULTS / suite / "problems"


def evaluations(suite: str) -> Path:
    """Return the folder with one file of figures per problem, on which `metrics` depends."""
    return RESULTS / suite / "evaluations"


def evaluation(suite: str, problem: str) -> Path:
    """Return the path of the adapted model's figures on a problem."""
    return evaluations(suite) / f"{problem}.json"


def metrics(suite: str) -> Path:
    """Return the path of the figures that `dvc metrics` and `dvc exp show` display for a suite."""
    return RESULTS / suite / "metrics.json"


def problem_tables(suite: str, problem: str) -> Path:
    """Return the folder of a problem's tables per task, class and image, for plots and the report."""
    return problems(suite) / problem / "tables"


def comparison(suite: str, problem: str) -> Path:
    """Return the path of the figures of every compared method on a problem."""
    return problems(suite) / problem / "comparison.json"


def sensitivity(suite: str, problem: str) -> Path:
    """Return the folder of accuracies over D and sigma: D.csv, sigma.csv and, for `select`, D.json and sigma.json."""
    return problems(suite) / problem / "sensitivity"


def selection(suite: str, problem: str) -> Path:
    """Return the folder of the choices of label-free scores, with values.csv and choices.csv."""
    return problems(suite) / problem / "selection"


def suite_tables(suite: str) -> Path:
    """Return the folder of the tables over all problems of a suite."""
    return RESULTS / suite / "tables"


def streams(suite: str) -> Path:
    """Return the folder of the results of streams, a pair of files per step, on which `report` depends."""
    return RESULTS / suite / "streams"


def step_images(suite: str, step: str) -> Path:
    """Return the path of the predicted class of each image of a step, least certain first."""
    return streams(suite) / f"{step}.csv"


def step_figures(suite: str, step: str) -> Path:
    """Return the path of a step's figures: shares of the classes, agreement, estimated accuracy and drift."""
    return streams(suite) / f"{step}.json"


def figures(suite: str, problems: Iterable[str]) -> list[Path]:
    """Return the files of the headline figures, which identify the results of one set of parameters."""
    return [file(suite, name) for name in problems for file in (evaluation, comparison)]


def report(suite: str) -> Path:
    """Return the path of the page with all results of a suite."""
    return RESULTS / suite / "report.html"
