"""The layout of cache/ and results/: where every stage output is.

Caches are named after domains, models and problems. Results are in one folder per suite, so that switching suites
leaves the results of the others alone. Paths are relative to the project's folder, in which every stage runs.
"""

from collections.abc import Iterable
from pathlib import Path

CACHE = Path("cache")
CODE = CACHE / "code"
RESULTS = Path("results")
SCRATCH = Path(".referee/scratch")  # files of running stages; safe to remove when none runs
# Rows that an interrupted `embed` keeps; outside every stage's outputs, so that DVC neither tracks nor deletes them.
PROGRESS = Path(".referee/progress")
KEPT = Path(".referee/kept")  # of reports; safe to remove


def stage_code(stage: str, *keys: str) -> Path:
    """What decides a stage's outputs besides its inputs: its code or version, and settings or their defaults."""
    return CODE / f"{'-'.join((stage, *keys))}.json"


def manifest(domain: str) -> Path:
    """The manifest of a domain: the folders images, labels, names and tasks, and report.json."""
    return CACHE / "manifests" / domain


def order(domain: str) -> Path:
    """The order in which a domain's classes arrive, kept by git so that a new class moves no other."""
    return Path("orders") / f"{domain}.json"


def model_identity(model: str) -> Path:
    """Which weights a model has."""
    return CACHE / "models" / f"{model}.json"


def embeddings(domain: str, model: str) -> Path:
    """The embeddings of a domain's images by a model."""
    return CACHE / "embeddings" / domain / f"{model}.zarr"


def prompts(domain: str) -> Path:
    """The text embeddings of a domain's classes."""
    return CACHE / "prompts" / f"{domain}.zarr"


def bases(source: str) -> Path:
    """The recipes of a source's random Fourier bases, one per seed."""
    return CACHE / "bases" / f"{source}.json"


def source_model(source: str, label_space: str | None = None) -> Path:
    """The statistics and classifiers of a source after each task: all that a target may read of it.

    Those of a label space, fitted without the target's private classes, are inside.
    """
    path = CACHE / "source" / f"{source}.zarr"
    return path / "label_spaces" / f"{label_space}.zarr" if label_space else path


def target_model(problem: str) -> Path:
    """The adapted classifiers of a problem after each task, and the final labels they rest on."""
    return CACHE / "target" / f"{problem}.zarr"


def stream_state(step: str) -> Path:
    """The state of a stream after a step: all that the next step reads of the earlier ones."""
    return CACHE / "streams" / f"{step}.zarr"


def probe(suite: str, domain: str) -> Path:
    """First figures of a domain's embeddings."""
    return RESULTS / suite / "probes" / f"{domain}.json"


def basis_error(suite: str, source: str) -> Path:
    """How well the bases of a source approximate their kernel."""
    return RESULTS / suite / "bases" / f"{source}.json"


def problems(suite: str) -> Path:
    """The folder with one folder of results per problem, on which `tables` and `report` depend."""
    return RESULTS / suite / "problems"


def evaluations(suite: str) -> Path:
    """The folder with one file of figures per problem, on which `metrics` depends."""
    return RESULTS / suite / "evaluations"


def evaluation(suite: str, problem: str) -> Path:
    """The figures of the adapted model on a problem."""
    return evaluations(suite) / f"{problem}.json"


def metrics(suite: str) -> Path:
    """What `dvc metrics` and `dvc exp show` show of a suite."""
    return RESULTS / suite / "metrics.json"


def problem_tables(suite: str, problem: str) -> Path:
    """Tables of a problem per task, class and image, for plots and the report."""
    return problems(suite) / problem / "tables"


def comparison(suite: str, problem: str) -> Path:
    """The figures of every compared method on a problem."""
    return problems(suite) / problem / "comparison.json"


def sensitivity(suite: str, problem: str) -> Path:
    """Accuracy over D and over sigma: D.csv and sigma.csv, and what `select` chooses from, D.json and sigma.json."""
    return problems(suite) / problem / "sensitivity"


def selection(suite: str, problem: str) -> Path:
    """What label-free scores choose: values.csv and choices.csv."""
    return problems(suite) / problem / "selection"


def suite_tables(suite: str) -> Path:
    """The tables of all problems of a suite together."""
    return RESULTS / suite / "tables"


def streams(suite: str) -> Path:
    """The folder of what steps of streams leave for people, on which `report` depends."""
    return RESULTS / suite / "streams"


def step_images(suite: str, step: str) -> Path:
    """What each image of a step was taken for, least certain first."""
    return streams(suite) / f"{step}.csv"


def step_figures(suite: str, step: str) -> Path:
    """Shares of the classes, agreement, estimated accuracy and drift of a step."""
    return streams(suite) / f"{step}.json"


def figures(suite: str, problems: Iterable[str]) -> list[Path]:
    """The files of the headline figures, which tell the results of one set of parameters from another's."""
    return [file(suite, name) for name in problems for file in (evaluation, comparison)]


def report(suite: str) -> Path:
    """The page of all results of a suite."""
    return RESULTS / suite / "report.html"
