"""Read the paper's figures from published.csv beside this file, under our names of problems and methods.

They were measured under another protocol (see published.md), so tables keep them apart from ours.
"""

import csv
import functools
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path

FILE = Path(__file__).with_name("published.csv")
AVERAGE = "mean"  # our name for the column `Avg`
ABLATION = "visda-ablation"  # dataset of the ablation's rows, all on VisDA
TITLES = {"office31": "Office-31", "officehome": "Office-Home", "visda": "VisDA", "domainnet": "DomainNet"}
# The paper's method -> our version of it. Their ablations are of the released method, ours of `calibrated`.
REFEREE = {
    "REFEREE": "released",
    "REFEREE w/o CLIP": "no_clip",
    "REFEREE w/o augmentation": "no_augmentation",
    "REFEREE w/o weighting": "no_weighting",
}

OVERLAP = (
    "the released code draws its 90/10 split twice, so 88–89% of its test images are also train images; "
    "in measured rows, none are"
)
OTHER_BACKBONE = (
    "ResNet34 (Office-31, VisDA) or ResNet50 (Office-Home, DomainNet), not ViT-B and CLIP; "
    "source samples while adapting"
)


@dataclass(frozen=True)
class Published:
    """A figure as the paper prints it, in percent over five seeds; `sd` is None if it prints none."""

    dataset: str  # a key of `TITLES`, or `ABLATION`
    problem: str  # our name, or `AVERAGE`
    printed: str  # the paper's name of the problem
    title: str  # the paper's name of the method
    mean: Decimal
    sd: Decimal | None

    @property
    def method(self) -> str:
        """Our name of the method."""
        return REFEREE.get(self.title, self.title.lower())

    @property
    def source_samples(self) -> bool:
        """Whether the method reads source samples while adapting, as all but REFEREE do."""
        return self.title not in REFEREE

    @property
    def note(self) -> str:
        """The difference from our protocol."""
        return OTHER_BACKBONE if self.source_samples else OVERLAP


@functools.cache
def read_published() -> list[Published]:
    """Read the paper's figures in their printed order."""
    _, *lines = csv.reader(FILE.read_text(encoding="utf-8").splitlines())
    return [
        Published(dataset, problem, printed, title, Decimal(mean), Decimal(sd) if sd else None)
        for dataset, problem, printed, title, mean, sd in lines
    ]


def problems_of(dataset: str) -> dict[str, str]:
    """Return the paper's problems on a dataset: our name -> the paper's name.

    Examples
    --------
    >>> problems_of("office31")["amazon-dslr"]
    'A→D'
    """
    return {f.problem: f.printed for f in read_published() if f.dataset == dataset and f.problem != AVERAGE}
