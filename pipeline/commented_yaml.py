"""Edit YAML files written by people, preserving comments, quotes and order."""

import io
from collections.abc import Mapping
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.comments import CommentedMap, CommentedSeq


def load(text: str) -> Any:
    """Parse YAML text into mappings and lists that remember their formatting."""
    return _yaml().load(text)


def dump(data: Any) -> str:
    """Return the YAML text of edited data."""
    stream = io.StringIO()
    _yaml().dump(data, stream)
    return stream.getvalue()


def add_entry(data: Any, section: str, key: str, entry: Mapping[str, Any]) -> None:
    """Add an entry in one line to a section, which may be absent or written as {}."""
    if not data.get(section):
        data[section] = CommentedMap()
    data[section].fa.set_block_style()
    data[section][key] = in_one_line(entry)


def in_one_line(value: Any) -> Any:
    """Return a copy of a mapping or list that is written in one line."""
    if isinstance(value, Mapping):
        mapping = CommentedMap({key: in_one_line(item) for key, item in value.items()})
        mapping.fa.set_flow_style()
        return mapping
    if isinstance(value, list | tuple):
        sequence = CommentedSeq(value)
        sequence.fa.set_flow_style()
        return sequence
    return value


def _yaml() -> YAML:
    yaml = YAML()
    yaml.preserve_quotes = True
    yaml.width = 4096
    return yaml
