"""Changes of suite.yaml that keep its comments and quotes, and are written only if the result is valid."""

from __future__ import annotations

import io
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.comments import CommentedMap, CommentedSeq

from pipeline.params import SUITE_FILE, parse_suite
from pipeline.write_aside import write_aside


@contextmanager
def edited_suite() -> Iterator[Any]:
    """Yield suite.yaml as nested mappings; what they hold at the end is written, or refused with the key at fault."""
    yaml = YAML()  # the round trip keeps comments
    yaml.preserve_quotes = True
    yaml.width = 4096
    data = yaml.load(SUITE_FILE.read_text(encoding="utf-8"))
    yield data
    stream = io.BytesIO()
    yaml.dump(data, stream)
    parse_suite(YAML(typ="safe", pure=True).load(stream.getvalue()))
    with write_aside(SUITE_FILE) as aside:
        aside.write_bytes(stream.getvalue())


def put(data: Any, section: str, key: str, entry: Mapping[str, Any]) -> None:
    """Add an entry in one line to a section, which may have been written as {}."""
    if not data.get(section):
        data[section] = CommentedMap()
    data[section].fa.set_block_style()
    data[section][key] = in_one_line(entry)


def in_one_line(value: Any) -> Any:
    """Return a mapping or list that is written in one line."""
    if isinstance(value, Mapping):
        mapping = CommentedMap({key: in_one_line(item) for key, item in value.items()})
        mapping.fa.set_flow_style()
        return mapping
    if isinstance(value, list | tuple):
        sequence = CommentedSeq(value)
        sequence.fa.set_flow_style()
        return sequence
    return value
