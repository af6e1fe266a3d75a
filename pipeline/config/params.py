"""Read params.yaml and suite.yaml into one validated object.

params.yaml (`pipeline.config.settings`) has every number that a user may change, suite.yaml (`pipeline.config.suite`)
the images, models and problems. Unknown keys are refused with the nearest valid name, and every message names the file
and the key. Only `pipeline.stages` and the command line read params; the layers below receive plain values.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Self, TypeVar, get_origin

from pydantic import ValidationError, model_validator
from pydantic_core import to_jsonable_python

from pipeline.config.settings import Settings
from pipeline.config.suite import StateEntry, Suite
from pipeline.errors import ParamsError, did_you_mean, listed
from pipeline.validated_yaml import Section, explain, read_yaml, type_at, validate

PARAMS_FILE = Path("params.yaml")
SUITE_FILE = Path("suite.yaml")
Entry = TypeVar("Entry")


class Params(Suite, Settings):
    """The content of both files, as used by the stages and the command line."""

    @model_validator(mode="after")
    def _files_agree(self) -> Self:
        if not self.refinement.off and self.vision not in self.models:
            raise ValueError(
                f"refinement: views are refined against one vision model, and vision: {self.vision!r} joins "
                "several; set refinement.steps: 0 and mutual_attention: false"
            )
        for name in self.data.private:
            if name not in self.domains:
                raise ValueError(f"data.private: {name!r} is not in domains{did_you_mean(name, self.domains)}")
        return self


def load_params(folder: Path = Path()) -> Params:
    """Read and validate params.yaml and suite.yaml in a folder; raise ParamsError with one line per mistake."""
    settings = read_yaml(folder / PARAMS_FILE)
    # checked before suite.yaml is read, which may be missing
    _refuse_misplaced(settings, Suite, folder / PARAMS_FILE, SUITE_FILE)
    return parse_params(settings, read_yaml(folder / SUITE_FILE), folder)


def parse_params(settings: Any, suite: Any, folder: Path = Path()) -> Params:
    """Validate the parsed YAML of params.yaml and suite.yaml; ``folder`` is only used in messages."""
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
    """Validate the parsed YAML of params.yaml alone; ``file`` is only used in messages."""
    _refuse_misplaced(raw, Suite, file, SUITE_FILE)
    return validate(Settings, raw, file)


def parse_suite(raw: Any, file: Path = SUITE_FILE) -> Suite:
    """Validate the parsed YAML of suite.yaml or of a file in suites/; ``file`` is only used in messages."""
    _refuse_misplaced(raw, Settings, file, PARAMS_FILE)
    if isinstance(raw, dict) and "lists" in raw:  # a section in former versions
        raise ParamsError(
            f"{file}: lists: a list of images is now `images` of its domain; remove the section (`referee upgrade` "
            f"does so in {SUITE_FILE}, and keeps the lists)"
        )
    return validate(Suite, raw, file)


def _refuse_misplaced(raw: Any, other: type[Section], file: Path, other_file: Path) -> None:
    """Raise ParamsError for sections of the other file; params.yaml had all of them before suite.yaml existed."""
    misplaced = [key for key in raw if key in other.model_fields] if isinstance(raw, dict) else []
    if misplaced:
        remedy = "move them there"
        if other_file == SUITE_FILE:
            remedy += ", or remove them here and run `referee use NAME`"
        raise ParamsError(f"{file}: {', '.join(misplaced)}: belong in {other_file}; {remedy}")


def get_entry(section: str, entries: Mapping[str, Entry], key: str) -> Entry:
    """Return ``entries[key]``; raise ParamsError if ``section`` has no such key."""
    if key not in entries:
        file = SUITE_FILE if section in Suite.model_fields else PARAMS_FILE
        raise ParamsError(f"{file}: {section}: there is no {key!r}{did_you_mean(key, entries)}")
    return entries[key]


def streams_of(suite: Suite) -> dict[str, dict[str, StateEntry]]:
    """Return the steps of each stream by key, starting with those whose images were deleted."""
    streams: dict[str, dict[str, StateEntry]] = {}
    for key, state in (*suite.past.items(), *suite.steps.items()):
        streams.setdefault(key.partition("-")[0], {})[key] = state
    return streams


def newest_step(suite: Suite, stream: str, after: str | None = None) -> str:
    """Return the key of a stream's last step, or of step ``after`` (``week2`` or ``camera-week2``)."""
    steps = get_entry("steps", streams_of(suite), stream)
    if after is not None:
        key = after if "-" in after else f"{stream}-{after}"
        get_entry("steps", steps, key)
        return key
    continued = {state.step_before for state in steps.values()}
    last = [key for key in steps if key not in continued]
    if len(last) > 1:
        raise ParamsError(f"{SUITE_FILE}: the stream {stream} is forked; name one of {listed(last)} (--after)")
    return last[0]


def section_defaults(section: str) -> dict[str, Any]:
    """Return the defaults of a section as plain JSON values; for named entries (`models`, ...), those of an entry.

    Keys without a default are left out, and so are keys with default None: adding such a key changes nothing that was
    computed before.

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
