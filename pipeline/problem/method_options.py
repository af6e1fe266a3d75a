"""The variant that params.yaml names, with its single options changed, as `MethodOptions`."""

from collections.abc import Mapping
from dataclasses import fields, replace
from typing import Any

from pipeline.errors import ParamsError, did_you_mean
from pipeline.method.variants import VARIANTS, MethodOptions


def method_options(variant: str, changes: Mapping[str, Any]) -> MethodOptions:
    """Return the options of a variant with some of them changed; a mistake is named by its key in params.yaml.

    Examples
    --------
    >>> method_options("calibrated", {"ridge": 0.1}).ridge
    0.1
    """
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
