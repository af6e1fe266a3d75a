"""The paper's own figures, from published.csv beside this file, under our names of problems and methods.

They were measured under another protocol (published.md), so no table mixes them with ours.
"""

from __future__ import annotations

import csv
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from pathlib import Path

from pipeline.errors import InputError, did_you_mean

FILE = Path(__file__).with_name("published.csv")
HEADER = ["dataset", "problem", "method", "accuracy_mean", "accuracy_sd"]
AVERAGE = "mean"  # our name of the column `Avg.`
ABLATION = "visda-ablation"  # the ablation's rows, all on VisDA

# dataset: the paper's abbreviation of each domain, and our key
DOMAINS: dict[str, dict[str, str]] = {
    "office31": {"A": "amazon", "D": "dslr", "W": "webcam"},
    "officehome": {"Ar": "art", "Cl": "clipart", "Pr": "product", "Rw": "real_world"},
    "visda": {"synthetic": "visda_train", "real": "visda_validation"},
    "domainnet": {"clipart": "domainnet_clipart", "sketch": "domainnet_sketch"},
}
TITLES = {
    "office31": "Office-31",
    "officehome": "Office-Home",
    "visda": "VisDA",
    "domainnet": "DomainNet",
}
# The paper's method: ours that traces it. Ablations of theirs are of the released method, ours of `calibrated`.
REFEREE = {
    "REFEREE": "released",
    "REFEREE w/o CLIP": "no_clip",
    "REFEREE w/o augmentation": "no_augmentation",
    "REFEREE w/o weighting": "no_weighting",
}
OTHERS = (
    "AGLA",
    "CDCL",
    "CLAMP",
    "DANN",
    "EEIL",
    "EWC",
    "HAL",
    "iCaRL",
    "IL2M",
    "LwF",
    "MAS",
    "RWalk",
    "SI",
)

OVERLAP = (
    "the released code draws its 90/10 split twice: 88–89% of its test images are also train images; "
    "the test images of measured rows are not"
)
OTHER_BACKBONE = (
    "ResNet34 (Office-31, VisDA) or ResNet50 (Office-Home, DomainNet), not ViT-B and CLIP; "
    "source samples while adapting"
)


@dataclass(frozen=True)
class Published:
    """One figure as printed: percent, mean over five seeds and, where given, standard deviation."""

    dataset: str
    problem: str  # our key, or AVERAGE
    title: str  # of the method, in the paper
    mean: Decimal
    sd: Decimal | None

    @property
    def method(self) -> str:
        """Our name of the method."""
        return REFEREE.get(self.title, self.title.lower())

    @property
    def source_samples(self) -> bool:
        """Whether it reads source samples while adapting: all but REFEREE do."""
        return self.title not in REFEREE

    @property
    def note(self) -> str:
        """What differs from our protocol."""
        return OTHER_BACKBONE if self.source_samples else OVERLAP


def abbreviation(dataset: str, problem: str) -> str | None:
    """Return the paper's name of a problem (``A→D``), if the paper has it."""
    return problems_of(dataset).get(problem)


def problems_of(dataset: str) -> dict[str, str]:
    """Return the paper's problems of a dataset: our key, the paper's name."""
    if dataset == "visda":  # one direction only
        return {"visda_train-visda_validation": "synthetic→real"}
    domains = DOMAINS.get(dataset, {})
    return {f"{domains[a]}-{domains[b]}": f"{a}→{b}" for a in domains for b in domains if a != b}


def read_published(path: Path = FILE) -> list[Published]:
    """Read and validate the figures, in the paper's order."""
    try:
        with path.open(encoding="utf-8", newline="") as file:
            lines = list(csv.reader(file))
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{path}: cannot be read ({error}); restore it from git") from None
    if not lines or lines[0] != HEADER:
        raise InputError(f"{path}:1: the header must be {','.join(HEADER)}; restore it from git")
    figures, seen = [], set()
    for number, line in enumerate(lines[1:], start=2):
        try:
            figure = _figure(line)
        except ValueError as error:
            raise InputError(f"{path}:{number}: {error}; restore the file from git") from None
        key = (figure.dataset, figure.problem, figure.title)
        if key in seen:
            raise InputError(f"{path}:{number}: {' '.join(key)} stands there twice; remove one")
        seen.add(key)
        figures.append(figure)
    return figures


def _figure(line: Sequence[str]) -> Published:
    """Return the figure of a line, or raise ValueError saying what is wrong with it."""
    if len(line) != len(HEADER):
        raise ValueError(f"{len(line)} values, not {len(HEADER)}")
    dataset, problem, method, mean, sd = line
    if dataset not in DOMAINS and dataset != ABLATION:
        raise ValueError(f"no dataset {dataset!r}{did_you_mean(dataset, [*DOMAINS, ABLATION])}")
    keys = {name: key for key, name in problems_of(dataset.removesuffix("-ablation")).items()}
    if len(keys) > 1:
        keys["Avg"] = AVERAGE
    if problem not in keys:
        raise ValueError(f"{dataset} has no problem {problem!r}{did_you_mean(problem, keys)}")
    known = list(REFEREE) if dataset == ABLATION else [*OTHERS, "REFEREE"]
    if method not in known:
        raise ValueError(f"{dataset} has no method {method!r}{did_you_mean(method, known)}")
    return Published(
        dataset, keys[problem], method, _percent(mean), _percent(sd) if sd.strip() else None
    )


def _percent(text: str) -> Decimal:
    try:
        value = Decimal(text)
    except InvalidOperation:
        raise ValueError(f"{text!r} is not a number") from None
    if not (value.is_finite() and 0 <= value <= 100):
        raise ValueError(f"{text!r} is not a number from 0 to 100")
    return value
