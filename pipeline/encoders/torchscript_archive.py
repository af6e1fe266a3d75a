"""Tensors out of a TorchScript archive, without running any of its code.

OpenAI's original CLIP files are such archives: a zip of ``data.pkl`` (objects of the archive's own
classes), ``data/N`` (the tensors' bytes) and ``code/`` (the classes, as TorchScript source). The
reader here builds inert nodes for the classes, tensors from the bytes, and refuses any other name;
the source is searched for names of parameters and buffers only.
"""

from __future__ import annotations

import io
import pickle
import re
import zipfile
from collections import OrderedDict
from typing import TYPE_CHECKING, Any

import torch

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

STORAGES = {
    "FloatStorage": torch.float32,
    "HalfStorage": torch.float16,
    "BFloat16Storage": torch.bfloat16,
    "DoubleStorage": torch.float64,
    "LongStorage": torch.int64,
    "IntStorage": torch.int32,
    "ShortStorage": torch.int16,
    "CharStorage": torch.int8,
    "ByteStorage": torch.uint8,
    "BoolStorage": torch.bool,
}
_CLASS = re.compile(r"^class (\w+)\(Module\):\n((?:  .*\n)*)", re.MULTILINE)
_NAMES = re.compile(r"__(?:parameters|buffers)__ = \[([^\]]*)\]")


class _Node:
    """Stands for an object of a class of the archive; its attributes are what was pickled."""

    qualified_name = ""


def is_archive(path: Path) -> bool:
    """Whether ``path`` is a TorchScript archive rather than a pickle made by ``torch.save``."""
    if not zipfile.is_zipfile(path):
        return False
    with zipfile.ZipFile(path) as archive:
        return any(name.endswith("/constants.pkl") for name in archive.namelist())


def read_tensors(path: Path) -> dict[str, torch.Tensor]:
    """Return the parameters and buffers of the archived module under their dotted names."""
    with zipfile.ZipFile(path) as archive:
        pickled = next(name for name in archive.namelist() if name.endswith("/data.pkl"))
        root = pickled.removesuffix("data.pkl")
        unpickler = _Unpickler(archive, root)
        return dict(_tensors(unpickler.load(), "", _declared(archive, root)))


class _Unpickler(pickle.Unpickler):
    """Knows the archive's classes as `_Node`, tensors, and nothing else."""

    def __init__(self, archive: zipfile.ZipFile, root: str) -> None:
        super().__init__(io.BytesIO(_stored(archive, f"{root}data.pkl")))
        self._archive = archive
        self._root = root

    def find_class(self, module: str, name: str) -> Any:
        if module == "__torch__" or module.startswith("__torch__."):
            return type(name, (_Node,), {"qualified_name": f"{module}.{name}"})
        if module == "torch" and name in STORAGES:
            return STORAGES[name]
        if (module, name) == ("torch._utils", "_rebuild_tensor_v2"):
            return _tensor
        if (module, name) == ("collections", "OrderedDict"):
            return OrderedDict
        if module == "torch.jit._pickle":  # typed lists; the second argument, if any, is a type
            return _first
        raise pickle.UnpicklingError(f"{module}.{name} has no place in an archive of weights")

    def persistent_load(self, pid: Any) -> torch.Tensor:
        """``pid`` is ("storage", dtype, key, device, number of elements); returns a 1-d tensor."""
        _, dtype, key, _, _ = pid
        data = bytearray(_stored(self._archive, f"{self._root}data/{key}"))
        return torch.frombuffer(data, dtype=dtype) if data else torch.empty(0, dtype=dtype)


def _stored(archive: zipfile.ZipFile, name: str) -> bytes:
    """Read an entry, never a compressed one: torch makes none, and it could fill the memory."""
    if archive.getinfo(name).compress_type != zipfile.ZIP_STORED:
        raise zipfile.BadZipFile(f"{name} is compressed")
    return archive.read(name)


def _tensor(
    storage: torch.Tensor, offset: int, size: tuple[int, ...], stride: tuple[int, ...], *_: object
) -> torch.Tensor:
    return storage.as_strided(size, stride, offset).clone()  # as_strided checks the bounds


def _first(value: object, *_: object) -> object:
    return value


def _declared(archive: zipfile.ZipFile, root: str) -> dict[str, set[str] | None]:
    """Names of parameters and buffers by class; None where an old archive lists no buffers."""
    declared: dict[str, set[str] | None] = {}
    for entry in archive.namelist():
        if not (entry.startswith(f"{root}code/") and entry.endswith(".py")):
            continue
        module = entry.removeprefix(f"{root}code/").removesuffix(".py").replace("/", ".")
        for name, body in _CLASS.findall(archive.read(entry).decode()):
            lists = _NAMES.findall(body)
            names = {item for text in lists for item in re.findall(r'"([^"]+)"', text)}
            declared[f"{module}.{name}"] = names if "__buffers__" in body else None
    return declared


def _tensors(
    node: object, prefix: str, declared: dict[str, set[str] | None]
) -> Iterator[tuple[str, torch.Tensor]]:
    if not isinstance(node, _Node):
        raise pickle.UnpicklingError("the archive holds no module")
    names = declared.get(node.qualified_name)
    for name, value in vars(node).items():
        if isinstance(value, _Node):
            yield from _tensors(value, f"{prefix}{name}.", declared)
        elif isinstance(value, torch.Tensor) and (names is None or name in names):
            yield f"{prefix}{name}", value
