"""Define the sections of suite.yaml (images, models and problems) and check that they are consistent."""

from collections.abc import Mapping
from graphlib import CycleError, TopologicalSorter
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import AfterValidator, BeforeValidator, Field, StringConstraints, model_validator
from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError

from pipeline.config.settings import Positive, SeedNumber, Settings
from pipeline.datasets.label_spaces import parts_of
from pipeline.encoders.backbone import Backbone
from pipeline.errors import InputError, did_you_mean
from pipeline.method.views import VIEWS, View
from pipeline.validated_yaml import AllDifferent, Section, all_different, type_at

# keys of domains and models become names of files and DVC stages (`embed@mnist-vit`), so they cannot contain '-'
Key = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9_]+$")]
DashedKey = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9_-]+$")]
Members = tuple[str, ...] | Annotated[int, Field(ge=0)]


class LabelSpaceLists(Section):
    """Shared, source-private and target-private classes of a problem: their names, or their number."""

    shared: Members | None = None  # all others if omitted
    source_private: Members = ()
    target_private: Members = ()

    def members(self) -> dict[str, Any]:
        """Return the lists that were set, as plain values."""
        return self.model_dump(mode="json", exclude_unset=True)


def _names_from_text(value: Any) -> Any:
    """Parse a mapping written as a block of text (`class_names: |`), which DVC reads faster because it is one value."""
    try:
        return (YAML(typ="safe", pure=True).load(value) or {}) if isinstance(value, str) else value
    except YAMLError:
        return value  # refused later, as text


class DatasetEntry(Section):
    """The classes shared by the domains of a dataset, and how they arrive in tasks."""

    classes_per_task: Annotated[int, Field(ge=1)]
    # order of arrival: listed task by task (other classes arrive last), or shuffled as in continual-learning papers,
    # which use seed 1993; sorted if both are omitted
    tasks: Annotated[tuple[Annotated[tuple[str, ...], Field(min_length=1)], ...], Field(min_length=1)] | None = None
    class_order_seed: Annotated[int, Field(ge=0, lt=2**32)] | None = None
    # folder name: name for prompts; {}: the folders found, with underscores as spaces
    class_names: Annotated[dict[str, str], BeforeValidator(_names_from_text)]
    # columns of tables and Parquet files, keys of WebDataset's .json, if not image (or path), label, domain, task
    columns: dict[Literal["image", "label", "domain", "task"], str] | None = None
    # used by partial, open and universal problems: docs/how-to/label-spaces.md
    label_spaces: dict[Key, LabelSpaceLists] | None = None

    @model_validator(mode="after")
    def _classes_are_in_the_lists(self) -> Self:
        if self.tasks and self.class_order_seed is not None:
            raise ValueError("class_order_seed: the order is given by `tasks`; keep one of them")
        names = [name for task in self.tasks or () for name in task]
        for name in names:
            if names.count(name) > 1:
                raise ValueError(f"tasks: the class {name!r} is listed twice")
            if self.class_names:
                _known("tasks", name, self.class_names, "class_names")
        for key, lists in (self.label_spaces or {}).items() if self.class_names else ():
            try:
                parts_of(f"label_spaces.{key}", self.class_names, **lists.members())
            except InputError as error:
                raise ValueError(str(error)) from None
        return self


class GeneratedEntry(Section):
    """A domain that the stage `generate` writes from installed packages."""

    folder: str
    seed: SeedNumber = 0
    per_class: Annotated[int, Field(ge=2)] | None = None


def _with_original(views: tuple[View, ...]) -> tuple[View, ...]:
    if "original" not in views:
        raise ValueError("must include 'original' (pseudo-labels come from it)")
    return views


def _with_placeholder(template: str) -> str:
    if template.count("{}") != 1:
        raise ValueError(f"{template!r} must contain {{}} exactly once")
    return template


class DomainEntry(Section):
    """A set of images. DVC tracks keys by name, so all but `labels` must be in suite.yaml."""

    dataset: str
    images: str  # a folder of class folders or of shards, or a file: docs/how-to/image-sources.md
    views: Annotated[tuple[View, ...], Field(min_length=1), AfterValidator(_with_original), AllDifferent]
    templates: Annotated[tuple[Annotated[str, AfterValidator(_with_placeholder)], ...], Field(min_length=1)]
    # none: images at any depth below the folder, with unknown classes; for `steps`
    labels: Literal["none"] | None = None


class ModelEntry(Backbone):
    """A frozen backbone, or a file of embeddings computed elsewhere."""

    ONLY_FOR: ClassVar[dict[str, str]] = {
        "kwargs": "timm",
        "pretrained": "open_clip",
        "quick_gelu": "open_clip",
        "arrays": "imported",
    }

    views: tuple[View, ...] = VIEWS  # restricts the domain's views
    arrays: dict[str, str] = Field(default_factory=dict)  # imported: name in the .npz by view, text, ...

    @model_validator(mode="after")
    def _fits_its_library(self) -> Self:
        for key, library in self.ONLY_FOR.items():
            default = ModelEntry.model_fields[key].get_default(call_default_factory=True)
            if library != self.library and getattr(self, key) != default:
                raise ValueError(f"{key}: is for library {library}, not {self.library}")
        return self


class JoinedEntry(Section):
    """Two models whose embeddings are concatenated in the kernel; either may be a joined model itself."""

    name: Key
    first: str
    second: str


class ProblemEntry(Section):
    """Adapt from one domain to another."""

    source: str
    target: str
    # one of the dataset's `label_spaces`; if omitted, both domains have all classes
    label_space: str | None = None
    # task (default): each task's classes are known; seen: any class that the source knows may be in any task
    classes: Literal["task", "seen"] | None = None


class StateEntry(Section):
    """The state of a stream after a step: its source, and the state it continues."""

    source: str
    before: str  # streams/STREAM-STEP, or source/SOURCE for a first step

    @property
    def step_before(self) -> str | None:
        """The key of the previous step, or None for a first step."""
        kind, _, name = self.before.partition("/")
        return name if kind == "streams" else None


def _all_or_names(value: Any) -> Any:
    if value == "all":
        return value
    if not isinstance(value, list | tuple) or not value or not all(isinstance(name, str) for name in value):
        raise ValueError(f"`all` or a list of class names, not {value!r}")
    return all_different(tuple(value))


class StepEntry(StateEntry):
    """A step of a stream: unlabelled images that arrive together. Its key is STREAM-STEP."""

    domain: str  # its images; labels are never read
    classes: Annotated[Literal["all"] | tuple[str, ...], BeforeValidator(_all_or_names)]  # allowed for the images
    corrections: str  # a CSV file `path,class` of images of this step labelled by a person; may have no rows
    correction_weight: Positive = 5.0  # a corrected image counts as this many certain rows
    # use the source model after this task (from 1), as `adapt` does; after the last if omitted
    source_task: Annotated[int, Field(ge=1)] | None = None


class Suite(Section):
    """The sections of suite.yaml, which must be consistent with each other."""

    suite: DashedKey  # name of a folder in results/
    datasets: dict[Key, DatasetEntry]
    generated: dict[Key, GeneratedEntry]
    domains: Annotated[dict[Key, DomainEntry], Field(min_length=1)]
    models: Annotated[dict[Key, ModelEntry], Field(min_length=1)]
    joined: list[JoinedEntry]
    vision: str  # one of models, or of joined
    language: str
    sources: dict[Key, Section]  # domains used as a source; they have no settings
    problems: dict[DashedKey, ProblemEntry]
    swept: dict[DashedKey, ProblemEntry]  # problems whose sensitivity to D and sigma is measured
    steps: dict[DashedKey, StepEntry]
    past: dict[DashedKey, StateEntry]  # steps whose images were deleted
    # settings in params.yaml of the documented results; `referee use` reports differences
    published: dict[str, dict[str, Any]] = Field(default_factory=dict)

    def models_of(self, name: str) -> tuple[str, ...]:
        """Return the models joined under a name of `joined`, or the model itself."""
        for entry in self.joined:
            if entry.name == name:
                return (*self.models_of(entry.first), *self.models_of(entry.second))
        return (name,)

    @model_validator(mode="after")
    def _sections_agree(self) -> Self:
        self._check_names()
        self._check_joined()
        self._check_problems()
        self._check_unlabelled()
        self._check_steps()
        self._check_published()
        return self

    def _check_names(self) -> None:
        problems = self.problems.items()
        references = (
            *((f"domains.{key}.dataset", domain.dataset, "datasets") for key, domain in self.domains.items()),
            *((f"generated.{key}", key, "domains") for key in self.generated),
            ("language", self.language, "models"),
            *((f"sources.{key}", key, "domains") for key in self.sources),
            *((f"problems.{key}.source", problem.source, "domains") for key, problem in problems),
            *((f"problems.{key}.source", problem.source, "sources") for key, problem in problems),
            *((f"problems.{key}.target", problem.target, "domains") for key, problem in problems),
            *((f"swept.{key}", key, "problems") for key in self.swept),
            *((f"steps.{key}.source", step.source, "sources") for key, step in self.steps.items()),
            *((f"steps.{key}.domain", step.domain, "domains") for key, step in self.steps.items()),
        )
        for key, name, section in references:
            _known(key, name, getattr(self, section), section)
        if self.models[self.language].library == "timm":
            raise ValueError(f"language: {self.language!r} is a timm model; it has no text tower")
        for key, generated in self.generated.items():
            if generated.folder != self.domains[key].images:
                raise ValueError(f"generated.{key}.folder: differs from domains.{key}.images")

    def _check_joined(self) -> None:
        known = dict.fromkeys(self.models)
        for index, entry in enumerate(self.joined):
            key = f"joined.{index}"
            if entry.name in known:
                raise ValueError(f"{key}.name: {entry.name!r} exists already; give it another name")
            for side in ("first", "second"):  # only models and earlier entries, so no cycles
                _known(f"{key}.{side}", getattr(entry, side), known, "models or joined before it")
            known[entry.name] = None
        _known("vision", self.vision, known, "models or joined")

    def _check_problems(self) -> None:
        for key, problem in self.problems.items():
            ends = (problem.source, problem.target)
            if problem.source == problem.target:
                raise ValueError(f"problems.{key}: source and target are both {problem.source!r}")
            for domain in ends:
                if self.domains[domain].labels == "none":
                    raise ValueError(
                        f"problems.{key}: {domain!r} has labels: none, and a problem is scored by labels; "
                        "adapt to its images by an entry of `steps` (`referee stream add`)"
                    )
            source, target = (self.datasets[self.domains[domain].dataset] for domain in ends)
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
            if problem != self.problems[key]:
                raise ValueError(f"swept.{key}: source and target differ from problems.{key}")

    def _check_unlabelled(self) -> None:
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

    def _check_steps(self) -> None:
        states: dict[str, StateEntry] = {**self.steps, **self.past}
        for key in self.past:
            if key in self.steps:
                raise ValueError(f"past.{key}: is in steps as well; keep one of them")
        for key, step in self.steps.items():
            if key.count("-") != 1 or key.startswith("-") or key.endswith("-"):
                raise ValueError(f"steps.{key}: a step is named STREAM-STEP, e.g. camera-week1")
            previous = step.step_before
            if previous is None:
                if step.before != f"source/{step.source}":
                    raise ValueError(
                        f"steps.{key}.before: {step.before!r} is neither streams/STREAM-STEP nor, "
                        f"for a first step, source/{step.source}"
                    )
                continue
            _known(f"steps.{key}.before", previous, states, "steps or past")
            if states[previous].source != step.source:
                raise ValueError(
                    f"steps.{key}.before: {previous!r} has the source {states[previous].source!r}, "
                    f"this step {step.source!r}; a stream has one source"
                )
        try:
            TopologicalSorter({key: [step.step_before] for key, step in self.steps.items()}).prepare()
        except CycleError as error:
            cycle = error.args[1][::-1]
            raise ValueError(f"steps.{cycle[0]}.before: {' after '.join(cycle)}: a circle") from None

    def _check_published(self) -> None:
        for section, values in self.published.items():
            _known(f"published.{section}", section, Settings.model_fields, "params.yaml")
            for key in values:
                known = type_at(Settings, [section]).model_fields
                _known(f"published.{section}.{key}", key, known, section)


def _known(key: str, name: str, names: Mapping[str, Any], section: str) -> None:
    if name not in names:
        raise ValueError(f"{key}: {name!r} is not in {section}{did_you_mean(name, names)}")
