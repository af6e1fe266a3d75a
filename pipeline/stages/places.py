"""Where the stages' outputs are: the one place that knows the layout of cache/ and results/."""

from __future__ import annotations

from pathlib import Path

CACHE = Path("cache")
RESULTS = Path("results")
SCRATCH = Path(".referee/scratch")  # of running stages; safe to remove when none runs
PROGRESS = Path(
    ".referee/progress"
)  # outside every stage's outputs, so DVC neither tracks nor deletes it


def in_any_folder(path: Path, wanted: object) -> Path:
    """Return a path that holds in another process's folder, where that is ``wanted``."""
    return path.absolute() if wanted else path


def code(stage: str) -> Path:
    """Digests of the code that a stage runs."""
    return CACHE / "code" / f"{stage}.json"


def manifest_folder(domain: str) -> Path:
    """images.csv, tasks.csv, classes.csv, labels.csv and report.json of a domain."""
    return CACHE / "manifests" / domain


def image_list(name: str) -> Path:
    """A validated copy of an image list."""
    return CACHE / "lists" / f"{name}.txt"


def model_identity(model: str) -> Path:
    """Which weights a model has."""
    return CACHE / "models" / f"{model}.json"


def embeddings(domain: str, model: str) -> Path:
    """The embeddings of a domain by a model."""
    return CACHE / "embeddings" / domain / f"{model}.zarr"


def prompts(domain: str) -> Path:
    """The text embeddings of a domain's classes."""
    return CACHE / "prompts" / f"{domain}.zarr"


def probe(domain: str) -> Path:
    """First figures of a domain's embeddings."""
    return RESULTS / "probes" / f"{domain}.json"


def bases(source: str) -> Path:
    """The random Fourier bases of a source, by their recipe."""
    return CACHE / "bases" / f"{source}.json"


def basis_metrics(source: str) -> Path:
    """How well those bases approximate their kernel."""
    return RESULTS / "bases" / f"{source}.json"


def source_model(source: str) -> Path:
    """What a source leaves behind after each task: all that a target may read of it."""
    return CACHE / "source" / f"{source}.zarr"


def pseudo_labels(problem: str) -> Path:
    """The labels, weights and gate of the target's train images, by the source model and CLIP."""
    return CACHE / "pseudo_labels" / f"{problem}.zarr"


def refined(problem: str) -> Path:
    """The embeddings of a problem's refined views, or the word that they are off."""
    return CACHE / "refined" / f"{problem}.zarr"


def target_model(problem: str) -> Path:
    """The adapted model after each task."""
    return CACHE / "target" / f"{problem}.zarr"


def metrics(problem: str) -> Path:
    """The headline figures of a problem."""
    return RESULTS / "metrics" / f"{problem}.json"


def tables(problem: str) -> Path:
    """Per-task and per-class tables of a problem, for plots."""
    return RESULTS / "tables" / problem


def comparison(problem: str) -> Path:
    """Every compared method's figures on a problem."""
    return RESULTS / "comparison" / f"{problem}.json"


def method_metrics(problem: str) -> Path:
    """Of those figures, A_T of every method, for `dvc metrics`."""
    return RESULTS / "methods" / f"{problem}.json"


def sensitivity(problem: str) -> Path:
    """Accuracy over D and over sigma, D.csv and sigma.csv."""
    return RESULTS / "sensitivity" / problem


def suite_tables() -> Path:
    """The tables of all problems together."""
    return RESULTS / "suite"


def report() -> Path:
    """The page of all results."""
    return RESULTS / "report.html"
