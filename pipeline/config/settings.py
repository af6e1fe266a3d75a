"""Define the sections of params.yaml: every number that a user may change."""

from typing import Annotated, Any, Literal

import pywt
from pydantic import AfterValidator, Field, StringConstraints

from pipeline.errors import did_you_mean
from pipeline.validated_yaml import AllDifferent, Section

SeedNumber = Annotated[int, Field(ge=0, lt=2**63)]
FeatureCount = Annotated[int, Field(ge=1, le=100_000)]
Positive = Annotated[float, Field(gt=0)]


def _wavelet(name: str) -> str:
    known = pywt.wavelist(kind="discrete")
    if name not in known:
        raise ValueError(f"no discrete wavelet {name!r}{did_you_mean(name, known)}")
    return name


class Data(Section):
    """How manifests are made, for all domains."""

    seeds: Annotated[tuple[SeedNumber, ...], Field(min_length=1), AllDifferent] = (0,)
    test_fraction: Annotated[float, Field(gt=0, lt=1)] = 0.1
    unreadable: Literal["stop", "skip"] = "stop"
    empty_class: Literal["stop", "report"] = "stop"
    max_pixels: Annotated[int, Field(ge=1)] = 100_000_000
    private: tuple[str, ...] = ()  # domains whose paths and labels are kept out of DVC


class Views(Section):
    """The frequency-aware views (15)."""

    wavelet: Annotated[str, AfterValidator(_wavelet)] = "haar"
    level: Annotated[int, Field(ge=1)] = 1
    noise: Literal["unit", "matched"] | Annotated[float, Field(ge=0)] = "matched"
    seed: SeedNumber = 0


class RandomFourierFeatures(Section):
    """The random Fourier basis (7). dvc.yaml reads the keys by name, so all of them must be present."""

    D: FeatureCount
    sigma: Positive
    # how sigma is interpreted; `median`: as a multiple of the median distance between source rows (a bandwidth)
    convention: Literal["gamma", "bandwidth", "spread", "median"]
    orthogonal: bool


class Method(Section):
    """The variant of the method, and single options that differ from it (listed in `pipeline.method.variants`)."""

    variant: str = "calibrated"
    options: dict[str, Any] = Field(default_factory=dict)


class Compare(Section):
    """The methods compared on the same cached features: variants, and files in pipeline/comparison/methods."""

    methods: Annotated[list[str], Field(min_length=1)]


class Sensitivity(Section):
    """The values of D and of sigma at which swept problems are scored, varying only one of them at a time."""

    D: Annotated[list[FeatureCount], Field(min_length=1)]
    sigma: Annotated[list[Positive], Field(min_length=1)]


def _option(value: Any) -> Any:
    """Return a hashable value of an option: a tuple for a list, such as ``views``."""
    if isinstance(value, dict):
        raise ValueError("an option is a number, a word, true, false or a list")  # noqa: TRY004  pydantic needs ValueError
    return tuple(value) if isinstance(value, list) else value


class Select(Section):
    """The candidates from which `select` chooses without target labels, one setting at a time."""

    D: list[FeatureCount] = Field(default_factory=list)
    sigma: list[Positive] = Field(default_factory=list)
    options: dict[str, Annotated[list[Annotated[Any, AfterValidator(_option)]], Field(min_length=1)]] = Field(
        default_factory=dict
    )


class Refinement(Section):
    """Two steps mentioned only in the text of the paper: adversarial refinement and mutual attention of the views."""

    steps: Annotated[int, Field(ge=0, le=1000)] = 0  # T_max; 0: none
    step_size: Positive = 0.01
    radius: Positive = 0.03
    mutual_attention: bool = False

    @property
    def off(self) -> bool:
        """Whether the views are left unchanged."""
        return self.steps == 0 and not self.mutual_attention


class Runtime(Section):
    """How the work is done; no stage depends on these, and results change at most in their last bits."""

    device: Annotated[str, StringConstraints(pattern=r"^(auto|cpu|mps|cuda(:\d+)?)$")] = "auto"
    statistics: Annotated[str, StringConstraints(pattern=r"^(cpu|cuda(:\d+)?)$")] = "cpu"
    batch_size: Annotated[int, Field(ge=1)] = 64
    workers: Annotated[int, Field(ge=0)] = 0  # 0: one per core
    compile: bool = False  # use torch.compile for the image towers, on an accelerator


class Settings(Section):
    """The sections of params.yaml. Those that dvc.yaml reads by name must be present, if only as {}."""

    data: Data
    views: Views
    rff: RandomFourierFeatures
    method: Method
    compare: Compare
    sensitivity: Sensitivity
    select: Select
    refinement: Refinement
    runtime: Runtime = Runtime()
