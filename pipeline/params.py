"""params.yaml and suite.yaml, typed and validated once.

params.yaml holds every number a user may change, suite.yaml which images, models and problems are used.
Unknown keys are refused with the nearest valid name, and every message names the file and the key. Only
`pipeline.stages` and the command line read params; everything below them receives plain values.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, TypeVar, get_origin

import pywt
from pydantic import Field, StringConstraints, ValidationError, field_validator, model_validator
from pydantic_core import to_jsonable_python
from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError

from pipeline.datasets.label_spaces import parts_of
from pipeline.errors import InputError, ParamsError, did_you_mean
from pipeline.method.view_names import VIEWS, View
from pipeline.validated_yaml import Section, explain, read_yaml, type_at, validate

if TYPE_CHECKING:
    from pipeline.encoders.backbone import Backbone

PARAMS_FILE = Path("params.yaml")
SUITE_FILE = Path("suite.yaml")

# Keys of domains and models become names of files and DVC stages (`embed@mnist-vit`): no '-', which joins them.
Key = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9_]+$")]
DashedKey = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9_-]+$")]
Fraction = Annotated[float, Field(gt=0, lt=1)]
Seed = Annotated[int, Field(ge=0, lt=2**63)]
FeatureCount = Annotated[int, Field(ge=1, le=100_000)]
Positive = Annotated[float, Field(gt=0)]

Entry = TypeVar("Entry")


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


Members = tuple[str, ...] | Annotated[int, Field(ge=0)]


class LabelSpaceLists(Section):
    """Classes that both, only the source or only the target of a problem have: names, or how many."""

    shared: Members | None = None  # all others if omitted
    source_private: Members = ()
    target_private: Members = ()

    def members(self) -> dict[str, Any]:
        """Return what is given, as plain values."""
        return self.model_dump(mode="json", exclude_unset=True)


class Dataset(Section):
    """Classes shared by the domains of a dataset, and how they arrive in tasks."""

    classes_per_task: Annotated[int, Field(ge=1)]
    # The order in which classes arrive: given task by task (classes that are not listed arrive after them), or drawn as
    # continual-learning papers draw it (1993 is theirs); sorted if neither is there.
    tasks: tuple[tuple[str, ...], ...] | None = None
    class_order_seed: Annotated[int, Field(ge=0, lt=2**32)] | None = None
    # Folder name -> name for prompts; {}: the folders found, underscores as spaces. A block of text (`class_names: |`)
    # means the same, and DVC, which parses the file once per stage, reads it as one value.
    class_names: dict[str, str]
    # Of tables, Parquet files and WebDataset's .json, where they are not called image (or path), label, domain, task.
    columns: dict[Literal["image", "label", "domain", "task"], str] | None = None
    # Partial, open and universal problems name one of these: docs/how-to/label-spaces.md
    label_spaces: dict[Key, LabelSpaceLists] | None = None

    @model_validator(mode="after")
    def _label_spaces_are_possible(self) -> Dataset:
        for key, lists in (self.label_spaces or {}).items() if self.class_names else ():
            try:
                parts_of(f"label_spaces.{key}", self.class_names, **lists.members())
            except InputError as error:
                raise ValueError(str(error)) from None
        return self

    @field_validator("class_names", mode="before")
    @classmethod
    def _from_text(cls, value: Any) -> Any:
        if not isinstance(value, str):
            return value
        try:
            return YAML(typ="safe", pure=True).load(value) or {}
        except YAMLError:
            return value  # refused as the text it is

    @model_validator(mode="after")
    def _order_is_an_order(self) -> Dataset:
        if self.tasks is None:
            return self
        if self.class_order_seed is not None:
            raise ValueError("class_order_seed: the order is given by `tasks`; keep one of them")
        named = [name for task in self.tasks for name in task]
        if not all(self.tasks) or not named:
            raise ValueError("tasks: a task has no class")
        for name in named:
            if named.count(name) > 1:
                raise ValueError(f"tasks: the class {name!r} is listed twice")
            if self.class_names:
                _known("tasks", name, self.class_names, "class_names")
        return self


class Generated(Section):
    """A domain that the `generate` stage writes from installed packages."""

    folder: str
    seed: Seed = 0
    per_class: Annotated[int, Field(ge=2)] | None = None


class Domain(Section):
    """One set of images. DVC tracks keys by name, so all but `labels` must stand in suite.yaml."""

    dataset: str
    images: str  # a folder of class folders or of shards, or a file: docs/how-to/image-sources.md
    views: Annotated[tuple[View, ...], Field(min_length=1)]
    templates: Annotated[tuple[str, ...], Field(min_length=1)]
    # none: images at any depth below the folder, of classes that nobody knows; for `steps`
    labels: Literal["none"] | None = None

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

    ONLY_FOR: ClassVar[dict[str, str]] = {
        "kwargs": "timm",
        "pretrained": "open_clip",
        "quick_gelu": "open_clip",
        "arrays": "imported",
    }

    library: Literal["timm", "open_clip", "imported"]
    # as the library calls it; for `imported`, what computed the file
    name: Annotated[str, StringConstraints(min_length=1)]
    # A checkpoint file; a folder that holds one (and, for an architecture that open_clip does not know, its
    # open_clip_config.json); an empty folder, into which the hub's weights go; for `imported`, the .npy/.npz itself.
    origin: str
    pretrained: str = ""  # open_clip's tag, e.g. openai; timm's is part of the name
    kwargs: dict[str, Any] = Field(default_factory=dict)  # constructor arguments, timm
    quick_gelu: Literal["auto"] | bool = "auto"  # open_clip
    preprocessing: dict[str, Any] = Field(default_factory=dict)  # overrides of the model's own
    # auto: half precision on an accelerator that is fast in it, float32 elsewhere; stores record which it was
    precision: Literal["auto", "float32", "bfloat16", "float16"] = "float32"
    stored_as: Literal["float16", "float32"] = "float16"
    views: tuple[View, ...] = VIEWS  # of the domain's views, these
    arrays: dict[str, str] = Field(default_factory=dict)  # imported: view, text, ... -> npz name

    @model_validator(mode="after")
    def _fits_its_library(self) -> Model:
        for key, library in self.ONLY_FOR.items():
            default = Model.model_fields[key].get_default(call_default_factory=True)
            if library != self.library and getattr(self, key) != default:
                raise ValueError(f"{key}: is for library {library}, not {self.library}")
        return self

    def backbone(self) -> Backbone:
        """Return what `pipeline.encoders` needs to build the model."""
        from pipeline.encoders.backbone import Backbone

        return Backbone(**self.model_dump(exclude={"views", "arrays"}))


class Joined(Section):
    """Two models side by side in the kernel; either may be an entry of `joined` itself."""

    name: Key
    first: str
    second: str


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
            near = did_you_mean(self.wavelet, known)
            raise ValueError(f"wavelet: no discrete wavelet {self.wavelet!r}{near}")
        return self


class Problem(Section):
    """Adapt from one domain to another."""

    source: str
    target: str
    # one of the dataset's `label_spaces`; the closed set if omitted: both domains have all classes
    label_space: str | None = None
    # task, also if omitted: the classes of a task are given; seen: any class that the source knows may be in any task
    classes: Literal["task", "seen"] | None = None


class State(Section):
    """The state of a stream after a step: its source, and the state that it continues."""

    source: str
    before: str  # streams/STREAM-STEP, or source/SOURCE for a first step

    @property
    def step_before(self) -> str | None:
        """The key of the step before; None for a first step."""
        kind, _, name = self.before.partition("/")
        return name if kind == "streams" else None


class Step(State):
    """A step of a stream: unlabelled images that arrive together. Its key is STREAM-STEP.

    Attributes
    ----------
    source : str
        The source domain, whose model labels the images.
    domain : str
        The images; their labels, where there are any, are not read.
    classes : "all" or tuple of str
        The classes that the images may have.
    before : str
        What the step continues: ``streams/STREAM-STEP``, or ``source/SOURCE`` for a first step.
    corrections : str
        A CSV file `path,class` of images of this step that a person looked at; it may have no rows.
    correction_weight : float
        Number of certain rows that a corrected image counts as.
    source_task : int, optional
        Use the source model after this one of its tasks, counted from 1, as `adapt` does; the last if omitted.
    """

    domain: str
    classes: Literal["all"] | tuple[str, ...]
    corrections: str
    correction_weight: Positive = 5.0
    source_task: Annotated[int, Field(ge=1)] | None = None

    @field_validator("classes", mode="before")
    @classmethod
    def _all_or_a_list(cls, value: Any) -> Any:
        names = isinstance(value, list | tuple) and all(isinstance(name, str) for name in value)
        if value != "all" and not (names and value):
            raise ValueError(f"`all` or a list of class names, not {value!r}")
        for name in value if names else ():
            if value.count(name) > 1:
                raise ValueError(f"{name!r} is listed twice")
        return tuple(value) if names else value


class RandomFourierFeatures(Section):
    """The random Fourier basis (7)."""

    D: FeatureCount = 6000
    sigma: Positive = 1e-4
    # what sigma means; `median`: a bandwidth of sigma times the median distance between source rows
    convention: Literal["gamma", "bandwidth", "spread", "median"] = "gamma"
    orthogonal: bool = False


class Method(Section):
    """Which variant adapts, and single options that differ from it (`pipeline.method.variants` lists them)."""

    variant: str = "calibrated"
    options: dict[str, Any] = Field(default_factory=dict)


class Compare(Section):
    """Which methods run side by side on the same caches: variants, and files of pipeline/comparison/methods."""

    methods: Annotated[list[str], Field(min_length=1)]


class Sensitivity(Section):
    """At which D and which sigma the swept problems are scored; the other one is that of `rff`."""

    D: Annotated[list[FeatureCount], Field(min_length=1)]
    sigma: Annotated[list[Positive], Field(min_length=1)]


class Select(Section):
    """The values among which `sensitivity` chooses without target labels, one setting at a time."""

    D: list[FeatureCount] = Field(default_factory=list)
    sigma: list[Positive] = Field(default_factory=list)
    options: dict[str, Annotated[list[Any], Field(min_length=1)]] = Field(default_factory=dict)


class Refinement(Section):
    """The two steps that only the text of the paper has: adversarial refinement and mutual attention of the views."""

    steps: Annotated[int, Field(ge=0, le=1000)] = 0  # T_max; 0: none
    step_size: Positive = 0.01
    radius: Positive = 0.03
    mutual_attention: bool = False

    @property
    def off(self) -> bool:
        """Whether the views stay as they are."""
        return self.steps == 0 and not self.mutual_attention


class Source(Section):
    """A domain that is fitted as a source; it has no settings."""


class Runtime(Section):
    """How the work is done, never what comes out: no stage depends on these."""

    device: Annotated[str, StringConstraints(pattern=r"^(auto|cpu|mps|cuda(:\d+)?)$")] = "auto"
    statistics: Annotated[str, StringConstraints(pattern=r"^(cpu|cuda(:\d+)?)$")] = "cpu"
    batch_size: Annotated[int, Field(ge=1)] = 64
    workers: Annotated[int, Field(ge=0)] = 0  # 0: one per core
    compile: bool = False  # the image towers by torch.compile, on an accelerator


class Settings(Section):
    """The sections of params.yaml. Sections that dvc.yaml reads by name must be written, if only as {}."""

    data: Data
    views: Views
    rff: RandomFourierFeatures
    method: Method
    compare: Compare
    sensitivity: Sensitivity
    select: Select
    refinement: Refinement
    runtime: Runtime = Runtime()


class Suite(Section):
    """The sections of suite.yaml, which must agree with each other."""

    suite: DashedKey  # the name of a folder in results/
    datasets: dict[Key, Dataset]
    generated: dict[Key, Generated]
    domains: Annotated[dict[Key, Domain], Field(min_length=1)]
    models: Annotated[dict[Key, Model], Field(min_length=1)]
    joined: list[Joined]
    vision: str  # one of models, or of joined
    language: str
    sources: dict[Key, Source]
    problems: dict[DashedKey, Problem]
    swept: dict[DashedKey, Problem]  # whose sensitivity to D and sigma is measured
    steps: dict[DashedKey, Step]
    past: dict[DashedKey, State]  # steps whose images are gone
    # settings of params.yaml behind the documented results; `referee use` says where params.yaml differs
    published: dict[str, dict[str, Any]] = Field(default_factory=dict)

    def models_of(self, name: str) -> tuple[str, ...]:
        """Return the models that stand side by side under a name of `joined`; of a model, itself."""
        for entry in self.joined:
            if entry.name == name:
                return (*self.models_of(entry.first), *self.models_of(entry.second))
        return (name,)

    @model_validator(mode="after")
    def _joined_models_exist(self) -> Suite:
        known = dict.fromkeys(self.models)
        for index, entry in enumerate(self.joined):
            key = f"joined.{index}"
            if entry.name in known:
                raise ValueError(f"{key}.name: {entry.name!r} exists already; give it another name")
            for side in ("first", "second"):  # of earlier entries only: no circles
                _known(f"{key}.{side}", getattr(entry, side), known, "models or joined before it")
            known[entry.name] = None
        _known("vision", self.vision, known, "models or joined")
        return self

    @model_validator(mode="after")
    def _names_agree(self) -> Suite:
        for key, domain in self.domains.items():
            _known(f"domains.{key}.dataset", domain.dataset, self.datasets, "datasets")
        for key, generated in self.generated.items():
            _known(f"generated.{key}", key, self.domains, "domains")
            if generated.folder != self.domains[key].images:
                raise ValueError(f"generated.{key}.folder: differs from domains.{key}.images")
        _known("language", self.language, self.models, "models")
        if self.models[self.language].library == "timm":
            raise ValueError(f"language: {self.language!r} is a timm model; it has no text tower")
        for key in self.sources:
            _known(f"sources.{key}", key, self.domains, "domains")
        return self

    @model_validator(mode="after")
    def _problems_are_possible(self) -> Suite:
        for key, problem in self.problems.items():
            _known(f"problems.{key}.source", problem.source, self.domains, "domains")
            _known(f"problems.{key}.source", problem.source, self.sources, "sources")
            _known(f"problems.{key}.target", problem.target, self.domains, "domains")
            if problem.source == problem.target:
                raise ValueError(f"problems.{key}: source and target are both {problem.source!r}")
            for domain in (problem.source, problem.target):
                if self.domains[domain].labels == "none":
                    raise ValueError(
                        f"problems.{key}: {domain!r} has labels: none, and a problem is scored by labels; "
                        "adapt to its images by an entry of `steps` (`referee stream add`)"
                    )
            source, target = (
                self.datasets[self.domains[domain].dataset] for domain in (problem.source, problem.target)
            )
            if (space := problem.label_space) is not None:
                lists = [dataset.label_spaces or {} for dataset in (source, target)]
                for known in lists:
                    _known(f"problems.{key}.label_space", space, known, "label_spaces")
                if lists[0][space] != lists[1][space]:
                    raise ValueError(
                        f"problems.{key}.label_space: {space!r} has other lists in the dataset of "
                        f"{problem.source!r} than in that of {problem.target!r}; make them equal"
                    )
            for order in ("classes_per_task", "tasks", "class_order_seed"):
                if getattr(source, order) != getattr(target, order):
                    raise ValueError(
                        f"problems.{key}: {order} is {getattr(source, order)} in {problem.source!r}, "
                        f"{getattr(target, order)} in {problem.target!r}; make {order} of their datasets equal"
                    )
        for key, problem in self.swept.items():
            _known(f"swept.{key}", key, self.problems, "problems")
            if problem != self.problems[key]:
                raise ValueError(f"swept.{key}: source and target differ from problems.{key}")
        return self

    @model_validator(mode="after")
    def _unlabelled_can_be_used(self) -> Suite:
        for key, domain in self.domains.items():
            if domain.labels is None:
                continue
            if key in self.sources:
                raise ValueError(f"sources.{key}: has labels: none; a source needs labels")
            if not self.datasets[domain.dataset].class_names:
                raise ValueError(
                    f"domains.{key}: has labels: none, so its folders name no classes; "
                    f"write them in datasets.{domain.dataset}.class_names"
                )
        return self

    @model_validator(mode="after")
    def _steps_follow_each_other(self) -> Suite:
        states: dict[str, State] = {**self.steps, **self.past}
        for key in self.past:
            if key in self.steps:
                raise ValueError(f"past.{key}: is in steps as well; keep one of them")
        for key, step in self.steps.items():
            if key.count("-") != 1 or key.startswith("-") or key.endswith("-"):
                raise ValueError(f"steps.{key}: a step is named STREAM-STEP, e.g. camera-week1")
            _known(f"steps.{key}.source", step.source, self.sources, "sources")
            _known(f"steps.{key}.domain", step.domain, self.domains, "domains")
            before = step.step_before
            if before is None:
                if step.before != f"source/{step.source}":
                    raise ValueError(
                        f"steps.{key}.before: {step.before!r} is neither streams/STREAM-STEP nor, "
                        f"for a first step, source/{step.source}"
                    )
                continue
            _known(f"steps.{key}.before", before, states, "steps or past")
            if states[before].source != step.source:
                raise ValueError(
                    f"steps.{key}.before: {before!r} has the source {states[before].source!r}, "
                    f"this step {step.source!r}; a stream has one source"
                )
            _refuse_circle(key, self.steps)
        return self

    @model_validator(mode="after")
    def _published_are_settings(self) -> Suite:
        for section, values in self.published.items():
            _known(f"published.{section}", section, Settings.model_fields, "params.yaml")
            for key in values:
                known = type_at(Settings, [section]).model_fields
                _known(f"published.{section}.{key}", key, known, section)
        return self


class Params(Suite, Settings):
    """Both files together, as the stages and the command line use them."""

    @model_validator(mode="after")
    def _refinement_has_one_model(self) -> Params:
        if not self.refinement.off and self.vision not in self.models:
            raise ValueError(
                f"refinement: views are refined against one vision model, and vision: {self.vision!r} joins "
                "several; set refinement.steps: 0 and mutual_attention: false"
            )
        return self

    @model_validator(mode="after")
    def _private_can_be_kept(self) -> Params:
        for name in self.data.private:
            _known("data.private", name, self.domains, "domains")
        return self


def _known(key: str, name: str, names: Mapping[str, Any], section: str) -> None:
    if name not in names:
        raise ValueError(f"{key}: {name!r} is not in {section}{did_you_mean(name, names)}")


def _refuse_circle(key: str, steps: Mapping[str, Step]) -> None:
    """Refuse a step that comes, by way of others, after itself."""
    found: list[str] = []
    here: str | None = key
    while here is not None and here in steps:
        found.append(here)
        here = steps[here].step_before
        if here in found:
            raise ValueError(f"steps.{key}.before: {' after '.join([*found, here])}: a circle")


def load_params(folder: Path = Path()) -> Params:
    """Read and validate params.yaml and suite.yaml of a folder.

    Returns
    -------
    Params
        The sections of both files as attributes.

    Raises
    ------
    ParamsError
        One line per mistake, each with its file and key.
    """
    settings = read_yaml(folder / PARAMS_FILE)
    # before suite.yaml is found missing
    _refuse_misplaced(settings, Suite, folder / PARAMS_FILE, SUITE_FILE)
    return parse_params(settings, read_yaml(folder / SUITE_FILE), folder)


def parse_params(settings: Any, suite: Any, folder: Path = Path()) -> Params:
    """Validate the parsed YAML of params.yaml and of suite.yaml; ``folder`` is only named in messages."""
    sections: dict[str, Any] = {}
    mistakes = []
    for parse, raw, file in ((parse_settings, settings, PARAMS_FILE), (parse_suite, suite, SUITE_FILE)):
        try:
            sections |= dict(parse(raw, folder / file))
        except ParamsError as error:
            mistakes.append(str(error))
    if mistakes:
        raise ParamsError("\n".join(mistakes))
    try:
        return Params(**sections)
    except ValidationError as error:
        raise ParamsError(explain(error, Params, sections, folder / PARAMS_FILE)) from None


def parse_settings(raw: Any, file: Path = PARAMS_FILE) -> Settings:
    """Validate the parsed YAML of params.yaml alone; ``file`` is named in messages."""
    _refuse_misplaced(raw, Suite, file, SUITE_FILE)
    return validate(Settings, raw, file)


def parse_suite(raw: Any, file: Path = SUITE_FILE) -> Suite:
    """Validate the parsed YAML of suite.yaml, or of a file in suites/, alone; ``file`` is named in messages."""
    _refuse_misplaced(raw, Settings, file, PARAMS_FILE)
    if isinstance(raw, dict) and "lists" in raw:  # a section of former versions
        raise ParamsError(
            f"{file}: lists: a list of images is `images` of its domain now; take the section out (`referee upgrade` "
            f"does so in {SUITE_FILE}, and keeps the lists)"
        )
    return validate(Suite, raw, file)


def _refuse_misplaced(raw: Any, other: type[Section], file: Path, other_file: Path) -> None:
    """Refuse sections of the other file; before suite.yaml existed, params.yaml had all of them."""
    misplaced = [key for key in raw if key in other.model_fields] if isinstance(raw, dict) else []
    if misplaced:
        remedy = "move them there"
        if other_file == SUITE_FILE:
            remedy += ", or remove them here and run `referee use NAME`"
        raise ParamsError(f"{file}: {', '.join(misplaced)}: belong in {other_file}; {remedy}")


def named(section: str, entries: Mapping[str, Entry], key: str) -> Entry:
    """Return ``entries[key]``, or raise a `ParamsError` that says that ``section`` has no such key."""
    if key not in entries:
        file = SUITE_FILE if section in Suite.model_fields else PARAMS_FILE
        raise ParamsError(f"{file}: {section}: there is no {key!r}{did_you_mean(key, entries)}")
    return entries[key]


def section_defaults(section: str) -> dict[str, Any]:
    """Return the defaults of a section, of named entries (`models`, ...) those of an entry, as plain JSON values.

    Keys without a default are left out, and those that may be absent (default None): a new one of these changes
    nothing that was computed before there was one.

    Examples
    --------
    >>> section_defaults("refinement")
    {'steps': 0, 'step_size': 0.01, 'radius': 0.03, 'mutual_attention': False}
    >>> section_defaults("models")["stored_as"]
    'float16'
    >>> section_defaults("vision")
    {}
    """
    model = type_at(Params, [section])
    if get_origin(model) is dict:
        model = type_at(Params, [section, "any"])
    fields = model.model_fields if isinstance(model, type) and issubclass(model, Section) else {}
    defaults = {
        name: to_jsonable_python(field.get_default(call_default_factory=True))
        for name, field in fields.items()
        if not field.is_required()
    }
    return {name: value for name, value in defaults.items() if value is not None}
