"""Read YAML files as frozen pydantic models, with errors of one line that name the file and the key."""

import json
import re
from pathlib import Path
from types import UnionType
from typing import Annotated, Any, TypeVar, Union, get_args, get_origin

from pydantic import AfterValidator, BaseModel, ConfigDict, ValidationError
from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError

from pipeline.errors import ParamsError, did_you_mean, one_line


class Section(BaseModel):
    """A mapping in a YAML file: frozen, with strict types, without unknown keys or NaN."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


MAX_VALUES = 1_000_000  # maximum number of values in a file after its aliases are expanded
# text that is not UTF-8 raises ValueError, and ruamel's constructors of dates and numbers raise the others
NOT_YAML = (YAMLError, ValueError, TypeError, LookupError, ArithmeticError, AttributeError)


def all_different(values: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return ``values``; raise ValueError if one of them is listed twice."""
    for value in values:
        if values.count(value) > 1:
            raise ValueError(f"{value!r} is listed twice")
    return values


AllDifferent = AfterValidator(all_different)
Validated = TypeVar("Validated", bound=Section)


def read_yaml(path: Path) -> Any:
    """Parse a YAML 1.2 file (in which 1e-4 is a number) into plain Python values."""
    try:
        return YAML(typ="safe", pure=True).load(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise ParamsError(f"{path}: no such file; run this in the root of the repository") from None
    except OSError as error:
        raise ParamsError(f"{path}: cannot be read ({error.strerror})") from None
    except RecursionError:
        raise ParamsError(f"{path}: not valid YAML: nested too deeply") from None
    except NOT_YAML as error:
        raise ParamsError(f"{path}: not valid YAML: {one_line(error)}") from None


def validate(model: type[Validated], raw: Any, file: Path) -> Validated:
    """Validate the content of ``file``, as returned by `read_yaml`; raise ParamsError with a line per mistake."""
    if not isinstance(raw, dict):
        raise ParamsError(f"{file}: must be a mapping of sections, not {type(raw).__name__}")
    try:
        if _expanded_size(raw, {}) > MAX_VALUES:
            raise ParamsError(f"{file}: its aliases expand to too many values; use fewer of them")
        text = json.dumps(raw, default=str)
    except (TypeError, ValueError, RecursionError) as error:  # a key is a list, or an anchor contains itself
        raise ParamsError(f"{file}: not valid YAML: {one_line(error)}") from None
    try:
        # from JSON, because strict validation of Python objects refuses a list where the model has a tuple
        return model.model_validate_json(text, strict=True)
    except ValidationError as error:
        raise ParamsError(explain(error, model, json.loads(text), file)) from None


def _expanded_size(value: Any, sizes: dict[int, int]) -> int:
    """Return the number of values after every alias is expanded."""
    if not isinstance(value, dict | list):
        return 1
    if id(value) not in sizes:
        items = value.values() if isinstance(value, dict) else value
        sizes[id(value)] = 1 + sum(_expanded_size(item, sizes) for item in items)
    return sizes[id(value)]


def explain(error: ValidationError, model: type[Section], data: Any, file: Path) -> str:
    """Return pydantic's error as one line per mistake, each with ``file`` and the key in ``data``."""
    lines = [f"{file}: {_line(item, model, data)}" for item in error.errors(include_url=False)]
    # one line per mistake, even if a key or value contains line breaks
    return "\n".join(dict.fromkeys(" ".join(line.split()) for line in lines))


def type_at(model: type[Section], location: list[int | str]) -> Any:
    """Return the type of the value at a location of a model, e.g. ``["domains", "uci"]``."""
    kind: Any = model
    for part in location:
        if isinstance(kind, type) and issubclass(kind, Section):
            kind = kind.model_fields[str(part)].annotation
        else:
            kind = get_args(kind)[-1 if get_origin(kind) is dict else 0]
        while get_origin(kind) in (Annotated, Union, UnionType):  # `X | None` becomes X
            kind = get_args(kind)[0]
    return kind


def _line(item: Any, model: type[Section], data: Any) -> str:
    location = _location(item, data)
    key = ".".join(map(str, location))
    if item["type"] == "extra_forbidden":
        section = type_at(model, location[:-1])
        return f"{key}: unknown key{did_you_mean(str(location[-1]), section.model_fields)}"
    if item["type"] == "missing":
        upgrade = "" if len(location) > 1 else "; `referee upgrade` adds sections that an older version did not have"
        return f"{key}: missing; docs/parameters.md explains it{upgrade}"
    if item["type"] == "value_error":
        # a section's own messages begin with the key inside it
        separator = "" if not key else "." if isinstance(item["input"], dict) else ": "
        return f"{key}{separator}{item['msg'].removeprefix('Value error, ')}"
    if item["type"] == "string_pattern_mismatch" and "A-Za-z0-9" in item["ctx"]["pattern"]:
        symbols = ", _ and -" if "-]" in item["ctx"]["pattern"] else " and _"
        return f"{key}: a name has only letters, digits{symbols}"
    value = repr(item["input"])
    value = value if len(value) <= 60 else value[:57] + "..."
    hint = ""
    if item["type"] == "literal_error" and isinstance(item["input"], str):
        hint = did_you_mean(item["input"], re.findall(r"'([^']*)'", item["ctx"]["expected"]))
        hint = hint if "did you mean" in hint else ""
    return f"{key}: {item['msg'][0].lower()}{item['msg'][1:]}, not {value}{hint}"


def _location(item: Any, data: Any) -> list[int | str]:
    """Return the keys and indices of a mistake in the data: pydantic's location without the union members it adds."""
    location: list[int | str] = []
    for part in item["loc"]:
        is_item = isinstance(data, list) and isinstance(part, int)
        if is_item or (isinstance(data, dict) and part in data):
            data = data[part]
        elif item["type"] != "missing":
            continue
        location.append(part)
    return location
