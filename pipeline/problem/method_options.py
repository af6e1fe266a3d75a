"""Build the method's options from params.yaml, and compare them with those that a store was made with."""

from collections.abc import Mapping
from dataclasses import asdict, fields, replace
from typing import Any

from pipeline.errors import ParamsError, StoreError, did_you_mean
from pipeline.method.variants import VARIANTS, MethodOptions
from pipeline.store.array_store import ArrayStore, differences


def method_options(variant: str, changes: Mapping[str, Any]) -> MethodOptions:
    """Return the options of a variant with ``changes``; raise ParamsError, which names the key, if one is invalid."""
    if variant not in VARIANTS:
        hint = did_you_mean(variant, VARIANTS)
        raise ParamsError(f"params.yaml: method.variant: no variant {variant!r}{hint}")
    known = [field.name for field in fields(MethodOptions)]
    for name in changes:
        if name not in known:
            raise ParamsError(f"params.yaml: method.options.{name}: unknown{did_you_mean(name, known)}")
    values: Any = {name: tuple(value) if isinstance(value, list) else value for name, value in changes.items()}
    try:
        return replace(VARIANTS[variant], **values)
    except ParamsError as error:
        raise ParamsError(f"params.yaml: method.options: {error}") from None
    except TypeError as error:
        raise ParamsError(f"params.yaml: method.options: a value of the wrong type ({error})") from None


def options_as_json(options: MethodOptions) -> dict[str, Any]:
    """Return the method's options as plain JSON values, for a store's attributes."""
    return {
        key: list(value) if isinstance(value, tuple) else value
        for key, value in asdict(options).items()
        if (key, value) != ("reject", "none")  # omitted so that models made before this option existed stay usable
    }


def check_options(store: ArrayStore, options: MethodOptions) -> None:
    """Raise StoreError if the model was adapted with other options than params.yaml has now."""
    for key, old, new in differences(store.attribute("method", dict), options_as_json(options)):
        raise StoreError(
            f"{store.path}: adapted with method option {key} = {old!r}, but params.yaml says {new!r}; run dvc "
            "repro, or put the section `method` back"
        )
