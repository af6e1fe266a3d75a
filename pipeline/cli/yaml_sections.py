"""The top-level sections of a YAML file as text: one can be replaced, every other byte stays.

A section is its comment lines right above (``head``), its own lines (``body``), and the blank and
comment lines after them (``tail``). Replacing a section replaces its body alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError
from ruamel.yaml.nodes import MappingNode, Node, ScalarNode

from pipeline.errors import ParamsError


@dataclass(frozen=True)
class Section:
    """One top-level key with its lines, each ending in a newline."""

    key: str
    head: str
    body: str
    tail: str

    @property
    def text(self) -> str:
        """All of it."""
        return self.head + self.body + self.tail


def root_mapping(text: str, named: str) -> dict[str, tuple[ScalarNode, Node]]:
    """Return the key and value nodes of the top-level mapping, each with its place in ``text``."""
    try:
        root: Any = YAML(typ="rt", pure=True).compose(text)
    except RecursionError:
        raise ParamsError(f"{named}: not valid YAML: nested too deeply") from None
    except (YAMLError, ValueError, TypeError, LookupError, AttributeError) as error:
        raise ParamsError(f"{named}: not valid YAML: {' '.join(str(error).split())}") from None
    if not isinstance(root, MappingNode) or root.flow_style:
        raise ParamsError(f"{named}: must be a mapping of sections, one `key:` per line")
    return {key.value: (key, value) for key, value in root.value}


def split(text: str, named: str) -> tuple[str, list[Section]]:
    """Return what stands before the first section, and the sections; together they are ``text``."""
    text = text if text.endswith("\n") else text + "\n"
    lines = text.splitlines(keepends=True)
    keys = root_mapping(text, named)
    starts = [key.start_mark.line for key, _ in keys.values()]
    heads = [_head(lines, start) for start in starts]
    sections = []
    for key, start, head, end in zip(keys, starts, heads, [*heads[1:], len(lines)], strict=True):
        tail = _tail(lines, start, end)
        body = "".join(lines[start:tail])
        sections.append(Section(key, "".join(lines[head:start]), body, "".join(lines[tail:end])))
    return "".join(lines[: heads[0]]), sections


def _head(lines: Sequence[str], start: int) -> int:
    """Return the first of the comment lines right above line ``start``."""
    first = start
    while first > 0 and lines[first - 1].startswith("#"):
        first -= 1
    return first


def _tail(lines: Sequence[str], start: int, end: int) -> int:
    """Return where the blank and comment lines at the end of lines ``start`` to ``end`` begin."""
    last = end
    while last > start + 1 and (not lines[last - 1].strip() or lines[last - 1].startswith("#")):
        last -= 1
    return last


def body_of(text: str, key: str, named: str) -> str:
    """Return the lines of one section, empty where there is none."""
    return next((s.body for s in split(text, named)[1] if s.key == key), "")


def with_bodies(text: str, bodies: Mapping[str, str], named: str) -> str:
    """Return ``text`` with those sections' bodies; a new section follows the one before it."""
    before, sections = split(text, named)
    position = 0
    for key, body in bodies.items():
        found = next((i for i, section in enumerate(sections) if section.key == key), None)
        if found is None:
            sections.insert(position, Section(key, "", body, "\n"))
        else:
            sections[found] = replace(sections[found], body=body)
            position = found
        position += 1
    return before + "".join(section.text for section in sections)
