"""The variant that params.yaml names, with its single overrides, as `MethodOptions`."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any

from pipeline.errors import ParamsError, did_you_mean
from pipeline.method.variants import VARIANTS, MethodOptions, variant
from pipeline.params import Method


def method_options(method: Method) -> MethodOptions:
    """Return the options; a mistake is named by its key."""
    known = [field.name for field in fields(MethodOptions)]
    for name in method.options:
        if name not in known:
            raise ParamsError(
                f"params.yaml: method.options.{name}: unknown{did_you_mean(name, known)}"
            )
    changes: Any = {
        name: tuple(value) if isinstance(value, list) else value
        for name, value in method.options.items()
    }
    if method.variant not in VARIANTS:
        hint = did_you_mean(method.variant, VARIANTS)
        raise ParamsError(f"params.yaml: method.variant: no variant {method.variant!r}{hint}")
    try:
        return replace(variant(method.variant), **changes)
    except ParamsError as error:
        raise ParamsError(f"params.yaml: method.options: {error}") from None
    except TypeError as error:
        raise ParamsError(
            f"params.yaml: method.options: a value of the wrong type ({error})"
        ) from None
