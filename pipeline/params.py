"""params.yaml, typed and validated once.

Every number a user may tweak is a field here. Unknown keys are rejected with the nearest valid name, and
every message names the key. Only `pipeline.stages` and the command line read params; everything below
them receives plain values.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar, get_args, get_origin

import pywt
from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    StringConstraints,
    ValidationError,
    field_validator,
    model_validator,
)
from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError

from pipeline.errors import ParamsError, did_you_mean

PARAMS_FILE = Path("params.yaml")
MOST_VALUES, MOST_DEEP = 1_000_000, 50  # of params.yaml: DomainNet's has a thousand, six deep

# Keys of domains and models become names of files and DVC stages (`embed@mnist-vit`): no '-', which joins them.
Key = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9_]+$")]
ProblemKey = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9_-]+$")]
View = Literal["original", "zeros", "rand"]
Fraction = Annotated[float, Field(gt=0, lt=1)]
Seed = Annotated[int, Field(ge=0, lt=2**63)]

Entry = TypeVar("Entry")


class Section(BaseModel):
    """A mapping of params.yaml: frozen, strict types, no unknown keys, no NaN."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


class Data(Section):
    """How manifests are made, for every domain."""

    seeds: Annotated[tuple[Seed, ...], Field(min_length=1)] = (0,)
    test_fraction: Fraction = 0.1
    unreadable: Literal["stop", "skip"] = "stop"
    empty_class: Literal["stop", "report"] = "stop"
    max_pixels: Annotated[int, Field(ge=1)] = 100_000_000
    private: tuple[str, ...] = ()  # domains whose paths and labels DVC never gets

    @model_validator(mode="after")
    def _seeds_differ(self) -> Data:
        if len(set(self.seeds)) != len(self.seeds):
            raise ValueError("seeds: the same seed is listed twice")
        return self


class Dataset(Section):
    """Classes shared by the domains of a dataset, and how they arrive in tasks."""

    classes_per_task: Annotated[int, Field(ge=1)]
    # Folder name -> name as people say it, for prompts; {}: the folders found, underscores as spaces. A block of text
    # (`class_names: |`) means the same, and DVC, which parses params.yaml once per stage, reads it as one value.
    class_names: dict[str, str]

    @field_validator("class_names", mode="before")
    @classmethod
    def _from_text(cls, value: Any) -> Any:
        if not isinstance(value, str):
            return value
        try:
            return YAML(typ="safe", pure=True).load(value) or {}
        except YAMLError:
            return value  # refused as the text it is


class Generated(Section):
    """A domain that the `generate` stage writes from installed packages."""

    folder: str
    seed: Seed = 0
    per_class: Annotated[int, Field(ge=2)] | None = None


class ImageList(Section):
    """A text file of `path label` lines, as VisDA and DomainNet ship them, that says which images a domain has."""

    file: str
    domain: str
    root: str  # what the paths in the file are relative to


class Domain(Section):
    """One set of images. All keys are required: DVC tracks each by name, so each must stand in params.yaml."""

    dataset: str
    images: str  # a folder, or an .npz whose `paths` (DOMAIN/CLASS/FILE) stand in for absent images
    views: Annotated[tuple[View, ...], Field(min_length=1)]
    templates: Annotated[tuple[str, ...], Field(min_length=1)]

    @model_validator(mode="after")
    def _is_usable(self) -> Domain:
        if "original" not in self.views:
            raise ValueError("views: must include 'original' (pseudo-labels come from it)")
        if len(set(self.views)) != len(self.views):
            raise ValueError("views: a view is listed twice")
        for template in self.templates:
            if template.count("{}") != 1:
                raise ValueError(f"templates: {template!r} must contain {{}} exactly once")
        return self


class Model(Section):
    """A frozen backbone, or a file of embeddings computed elsewhere."""

    library: Literal["timm", "open_clip", "imported"]
    name: Annotated[
        str, StringConstraints(min_length=1)
    ]  # as the library knows it; imported: what made the file
    # Where the numbers come from: a checkpoint file; a folder that holds one (and, for an architecture that
    # open_clip does not know, its open_clip_config.json) or waits for one (then the hub is asked); for `imported`,
    # the .npy/.npz itself.
    origin: str
    pretrained: str = ""  # open_clip's tag, e.g. openai; timm's is part of the name
    kwargs: dict[str, Any] = Field(default_factory=dict)  # constructor arguments, timm
    quick_gelu: Literal["auto"] | bool = "auto"  # open_clip
    preprocessing: dict[str, Any] = Field(default_factory=dict)  # overrides of the model's own
    precision: Literal["float32", "bfloat16", "float16"] = "float32"
    stored_as: Literal["float16", "float32"] = "float16"
    views: tuple[View, ...] = ("original", "zeros", "rand")  # of the views a domain asks for, these
    arrays: dict[str, str] = Field(
        default_factory=dict
    )  # imported: view, text, ... -> name in the .npz

    @model_validator(mode="after")
    def _fits_its_library(self) -> Model:
        only = {
            "timm": ("kwargs",),
            "open_clip": ("pretrained", "quick_gelu"),
            "imported": ("arrays",),
        }
        for library, keys in only.items():
            for key in keys:
                if library != self.library and getattr(self, key) != Model.model_fields[
                    key
                ].get_default(call_default_factory=True):
                    raise ValueError(f"{key}: is for library {library}, not {self.library}")
        return self


class Views(Section):
    """The frequency-aware views (15)."""

    wavelet: str = "haar"
    level: Annotated[int, Field(ge=1)] = 1
    noise: Literal["unit", "matched"] | Annotated[float, Field(ge=0)] = "matched"
    seed: Seed = 0

    @model_validator(mode="after")
    def _wavelet_exists(self) -> Views:
        known = pywt.wavelist(kind="discrete")
        if self.wavelet not in known:
            raise ValueError(
                f"wavelet: no discrete wavelet {self.wavelet!r}{did_you_mean(self.wavelet, known)}"
            )
        return self


class Problem(Section):
    """Adapt from one domain to another."""

    source: str
    target: str


class RandomFourierFeatures(Section):
    """The random Fourier basis (7)."""

    D: Annotated[int, Field(ge=1, le=100_000)] = 6000
    sigma: Annotated[float, Field(gt=0)] = 1e-4
    # what sigma means; `median`: a bandwidth of sigma times the median distance between source rows
    convention: Literal["gamma", "bandwidth", "spread", "median"] = "gamma"
    orthogonal: bool = False
    bases: Annotated[int, Field(ge=1, le=100)] = (
        1  # an ensemble: so many bases of D columns, scores averaged
    )


class Method(Section):
    """Which variant adapts, and single options that differ from it (`pipeline.method.variants` lists them)."""

    variant: str = "calibrated"
    options: dict[str, Any] = Field(default_factory=dict)


class Compare(Section):
    """Which methods run side by side on the same caches: variants, and files of pipeline/comparison/methods."""

    methods: Annotated[list[str], Field(min_length=1)]


class Sensitivity(Section):
    """At which D and which sigma the swept problems are scored; the other one is rff's."""

    D: Annotated[list[Annotated[int, Field(ge=1, le=100_000)]], Field(min_length=1)]
    sigma: Annotated[list[Annotated[float, Field(gt=0)]], Field(min_length=1)]


class Refinement(Section):
    """The two steps that only the paper's text has: adversarial refinement and mutual attention of the views."""

    steps: Annotated[int, Field(ge=0, le=1000)] = 0  # T_max; 0: none
    step_size: Annotated[float, Field(gt=0)] = 0.01
    radius: Annotated[float, Field(gt=0)] = 0.03
    mutual_attention: bool = False

    @property
    def off(self) -> bool:
        """Whether the views stay as they are."""
        return self.steps == 0 and not self.mutual_attention


class Source(Section):
    """A domain that is fitted as a source; there is nothing to set."""


class Runtime(Section):
    """How the work is done, never what comes out: no stage depends on these."""

    device: Annotated[str, StringConstraints(pattern=r"^(auto|cpu|mps|cuda(:\d+)?)$")] = "auto"
    statistics: Annotated[str, StringConstraints(pattern=r"^(cpu|cuda(:\d+)?)$")] = "cpu"
    batch_size: Annotated[int, Field(ge=1)] = 64
    workers: Annotated[int, Field(ge=0)] = 0  # 0: one per core


class Params(Section):
    """The whole of params.yaml. Sections that dvc.yaml reads by name must be there, if only as {}."""

    suite: str
    data: Data
    datasets: dict[Key, Dataset]
    generated: dict[Key, Generated]
    lists: dict[Key, ImageList]
    domains: Annotated[dict[Key, Domain], Field(min_length=1)]
    models: Annotated[dict[Key, Model], Field(min_length=1)]
    vision: str
    language: str
    sources: dict[Key, Source]
    problems: dict[ProblemKey, Problem]
    swept: dict[ProblemKey, Problem]  # whose sensitivity to D and sigma is measured
    views: Views
    rff: RandomFourierFeatures
    method: Method
    compare: Compare
    sensitivity: Sensitivity
    refinement: Refinement
    runtime: Runtime = Runtime()

    @model_validator(mode="after")
    def _private_can_be_kept(self) -> Params:
        for name in self.data.private:
            if name not in self.domains:
                near = did_you_mean(name, self.domains)
                raise ValueError(f"data.private: {name!r} is not in domains{near}")
            for key, image_list in self.lists.items():
                if image_list.domain == name:
                    raise ValueError(
                        f"data.private: {name!r} comes from the list {key!r}, which DVC caches; use class folders"
                    )
        return self

    @model_validator(mode="after")
    def _names_agree(self) -> Params:
        def known(key: str, name: str, names: dict[str, Any], section: str) -> None:
            if name not in names:
                raise ValueError(f"{key}: {name!r} is not in {section}{did_you_mean(name, names)}")

        for key, domain in self.domains.items():
            known(f"domains.{key}.dataset", domain.dataset, self.datasets, "datasets")
        for key, image_list in self.lists.items():
            known(f"lists.{key}.domain", image_list.domain, self.domains, "domains")
        for key in self.generated:
            known(f"generated.{key}", key, self.domains, "domains")
            if self.generated[key].folder != self.domains[key].images:
                raise ValueError(f"generated.{key}.folder: differs from domains.{key}.images")
        known("vision", self.vision, self.models, "models")
        known("language", self.language, self.models, "models")
        if self.models[self.language].library == "timm":
            raise ValueError(f"language: {self.language!r} is a timm model; it has no text tower")
        for key in self.sources:
            known(f"sources.{key}", key, self.domains, "domains")
        for key, problem in self.problems.items():
            known(f"problems.{key}.source", problem.source, self.sources, "sources")
            for role in ("source", "target"):
                known(f"problems.{key}.{role}", getattr(problem, role), self.domains, "domains")
            if problem.source == problem.target:
                raise ValueError(f"problems.{key}: source and target are both {problem.source!r}")
            per_task = [
                self.datasets[self.domains[domain].dataset].classes_per_task
                for domain in (problem.source, problem.target)
            ]
            if per_task[0] != per_task[1]:
                raise ValueError(
                    f"problems.{key}: {per_task[0]} classes per task in {problem.source!r}, {per_task[1]} in "
                    f"{problem.target!r}; make classes_per_task of their datasets equal"
                )
        for key in self.swept:
            known(f"swept.{key}", key, self.problems, "problems")
            if self.swept[key] != self.problems[key]:
                raise ValueError(f"swept.{key}: source and target differ from problems.{key}")
        return self


def read_yaml(path: Path) -> Any:
    """Parse a YAML 1.2 file (so that 1e-4 is a number) into plain Python, comments dropped."""
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise ParamsError(f"{path}: no such file; run this in the root of the repository") from None
    except UnicodeDecodeError as error:
        raise ParamsError(f"{path}: not valid YAML: {error}") from None
    except OSError as error:
        raise ParamsError(f"{path}: cannot be read ({error.strerror})") from None
    return parse_yaml(text, named=str(path))


def parse_yaml(text: str, *, named: str) -> Any:
    """Parse YAML text; whatever is in there, plain values of bounded size come out or a `ParamsError`."""
    try:
        parsed = YAML(typ="safe", pure=True).load(text)
    except RecursionError:
        raise ParamsError(f"{named}: not valid YAML: nested too deeply") from None
    # ruamel's constructors of dates and numbers raise all of these on malformed scalars
    except (
        YAMLError,
        ValueError,
        TypeError,
        LookupError,
        ArithmeticError,
        AttributeError,
    ) as error:
        line = " ".join(str(error).split())
        raise ParamsError(f"{named}: not valid YAML: {line}") from None
    if _count(parsed, MOST_DEEP, MOST_VALUES) > MOST_VALUES:
        # an anchor that holds itself, or ten times another that holds ten times another …
        raise ParamsError(f"{named}: not valid YAML: more values than params can have")
    return parsed


def _count(value: Any, depth: int, most: int) -> int:
    """Return how many values there are with every alias written out; above ``most``, any number above it."""
    if not isinstance(value, dict | list | set | tuple):
        return 1
    if depth == 0:
        return most + 1
    children = [*value, *value.values()] if isinstance(value, dict) else list(value)
    total = 1
    for child in children:
        total += _count(child, depth - 1, most - total)
        if total > most:
            break
    return total


def load_params(path: Path = PARAMS_FILE) -> Params:
    """Read and validate ``path``."""
    return parse_params(read_yaml(path), named=str(path))


def named(section: str, entries: Mapping[str, Entry], key: str) -> Entry:
    """Return ``entries[key]``, or say that ``section`` of params.yaml has no such key."""
    if key not in entries:
        raise ParamsError(f"{section}: there is no {key!r}{did_you_mean(key, entries)}")
    return entries[key]


def parse_params(raw: Any, *, named: str = str(PARAMS_FILE)) -> Params:
    """Validate parsed YAML. JSON is the form in which pydantic's strict mode means what YAML says."""
    if not isinstance(raw, dict):
        raise ParamsError(f"{named}: must be a mapping of sections, not {type(raw).__name__}")
    try:
        text = json.dumps(raw, default=str)
    except (TypeError, ValueError) as error:  # a key that is a list or a date
        raise ParamsError(f"{named}: a key is not a word: {error}") from None
    try:
        return Params.model_validate_json(text, strict=True)
    except ValidationError as error:
        raise ParamsError("\n".join(f"{named}: {line}" for line in _explain(error))) from None


def _explain(error: ValidationError) -> list[str]:
    lines = []
    for item in error.errors(include_url=False):
        unknown = (
            item["type"] == "extra_forbidden"
        )  # the last part is then the user's word, whatever it is
        location = [part for part in item["loc"][:-1] if not _is_union_tag(part)]
        location += [part for part in item["loc"][-1:] if unknown or not _is_union_tag(part)]
        key = ".".join(map(str, location))
        if unknown:
            lines.append(
                f"{key}: unknown key{did_you_mean(str(location[-1]), _fields_at(location[:-1]))}"
            )
        elif item["type"] == "missing":
            lines.append(f"{key}: missing")
        elif item["type"] == "value_error":
            prefix = f"{key}." if key else ""
            lines.append(f"{prefix}{item['msg'].removeprefix('Value error, ')}")
        elif item["type"] == "string_pattern_mismatch" and item["loc"][-1] == "[key]":
            also = ", _ and -" if "-]" in item["ctx"]["pattern"] else " and _"
            lines.append(f"{key}: a name has letters, digits{also} only")
        else:
            shown = repr(item["input"])
            shown = shown if len(shown) <= 60 else shown[:57] + "..."
            message = f"{item['msg'][0].lower()}{item['msg'][1:]}"
            lines.append(f"{key}: {message}, not {shown}{_nearest_choice(item)}")
    # one line each, whatever a key or value of the file holds
    return list(dict.fromkeys(" ".join(line.split()) for line in lines))


def _nearest_choice(item: Any) -> str:
    """Return the nearest of the choices where a word was none of them."""
    if item["type"] != "literal_error" or not isinstance(item["input"], str):
        return ""
    nearest = did_you_mean(item["input"], re.findall(r"'([^']*)'", item["ctx"]["expected"]))
    return nearest if "did you mean" in nearest else ""


def _is_union_tag(part: int | str) -> bool:
    """Pydantic adds the tried member of a union to the location (`literal['unit','matched']`)."""
    return isinstance(part, str) and (
        re.fullmatch(r"\[key\]|(literal|list|tuple|dict|function-[a-z-]+)\[.*\]", part) is not None
        or part in {"bool", "float", "constrained-float"}
    )


def _fields_at(location: list[int | str]) -> list[str]:
    """The valid names in the section at ``location``."""
    here: Any = Params
    for part in location:
        if isinstance(here, type) and issubclass(here, Section):
            here = here.model_fields[str(part)].annotation
        else:
            here = get_args(here)[-1 if get_origin(here) is dict else 0]
        while get_origin(here) is Annotated:
            here = get_args(here)[0]
    return list(here.model_fields) if isinstance(here, type) and issubclass(here, Section) else []
