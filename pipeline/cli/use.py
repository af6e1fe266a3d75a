"""`referee use SUITE`: put a suite's datasets, domains, models and problems into params.yaml."""

from __future__ import annotations

import argparse
import json
import re
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from ruamel.yaml.nodes import MappingNode, SequenceNode

from pipeline.cli import yaml_sections
from pipeline.cli.help_text import command
from pipeline.cli.on_disk import missing_inputs
from pipeline.errors import ParamsError, did_you_mean
from pipeline.params import PARAMS_FILE, Params, parse_params, parse_yaml
from pipeline.stages import places
from pipeline.write_aside import write_aside

if TYPE_CHECKING:
    from argparse import _SubParsersAction

DESCRIPTION = """\
Put a suite into params.yaml: which images, which backbones, what is adapted
to what (sections suite to swept), and D, sigma and the values of the sweeps
where the suite has them. All other text stays as it is. Says what has to be
put on disk first; then `dvc repro` runs it, and comes back to what was cached
when you change back.
"""
SUITES = "suites"  # beside params.yaml
REQUIRED = (
    *("suite", "datasets", "domains", "models"),
    *("vision", "language", "sources", "problems"),
)
EMPTY_IF_ABSENT = ("generated", "lists", "swept")
# As they follow each other in params.yaml.
ORDER = (
    *("suite", "datasets", "generated", "lists", "domains"),
    *("models", "vision", "language", "sources", "problems", "swept", "rff", "sensitivity"),
)

_PLAIN = re.compile(r"[\w./][\w./ -]*(?<! )")


def use(suite: str, params_path: Path = PARAMS_FILE) -> list[str]:
    """Replace the suite's sections in ``params_path``, all other text kept; return what to tell.

    ``suite`` is the name of a file in suites/ beside it, or the path of one. Where a suite lists
    several usual places of a domain's images, the one on disk is written, else the first. Nothing
    is written unless the result is valid.
    """
    root = params_path.parent
    file = _suite_file(suite, root / SUITES)
    old = _read(params_path, "run this in the root of the repository")
    bodies = _bodies(_with_places_found(_read(file, "name a suite"), str(file), root), str(file))
    new = yaml_sections.with_bodies(old, bodies, str(params_path))
    params = _params(new, f"{params_path} with {file}")
    if new != old:
        with write_aside(params_path) as aside:
            aside.write_text(new, encoding="utf-8", newline="\n")
    _forget_other_suites(root, params)
    return [
        *_told(params, params_path, old, bodies, changed=new != old),
        *missing_inputs(params, root),
    ]


def _params(text: str, named: str) -> Params:
    return parse_params(parse_yaml(text, named=named), named=named)


def _forget_other_suites(root: Path, params: Params) -> None:
    """Remove other suites' files from folders that stages depend on whole; DVC's cache keeps them."""
    for file in (root / places.image_list("any")).parent.glob("*.txt"):
        if file.stem not in params.lists:
            file.unlink()
    for place in (places.comparison, places.metrics, places.method_metrics):
        for file in (root / place("any")).parent.glob("*.json"):
            if file.stem not in params.problems:
                file.unlink()
    for place, kept in ((places.sensitivity, params.swept), (places.tables, params.problems)):
        for folder in (root / place("any")).parent.glob("*/"):
            if folder.name not in kept:
                shutil.rmtree(folder)


def _suite_file(suite: str, folder: Path) -> Path:
    if suite.endswith((".yaml", ".yml")) or "/" in suite:
        if not Path(suite).is_file():
            raise ParamsError(f"{suite}: no such suite file")
        return Path(suite)
    names = [file.stem for file in folder.glob("*.yaml")]
    if suite not in names:
        raise ParamsError(f"there is no suite {suite!r} in {folder}{did_you_mean(suite, names)}")
    return folder / f"{suite}.yaml"


def _read(path: Path, remedy: str) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise ParamsError(f"{path}: no such file; {remedy}") from None
    except UnicodeDecodeError:
        raise ParamsError(f"{path}: not a text file (UTF-8)") from None


def _bodies(text: str, named: str) -> dict[str, str]:
    """Return the text of each section of a suite file, in the order of params.yaml."""
    _, sections = yaml_sections.split(text, named)
    bodies = {section.key: section.body for section in sections}
    for key in bodies:
        if key not in ORDER:
            raise ParamsError(f"{named}: {key}: not a section of a suite{did_you_mean(key, ORDER)}")
    for key in REQUIRED:
        if key not in bodies:
            raise ParamsError(f"{named}: {key}: missing")
    bodies = {key: f"{key}: {{}}\n" for key in EMPTY_IF_ABSENT} | bodies
    return {key: bodies[key] for key in ORDER if key in bodies}


def _with_places_found(text: str, named: str, root: Path) -> str:
    """Return the suite with one place for every domain's images, where it lists several."""
    _, domains = yaml_sections.root_mapping(text, named).get("domains", (None, None))
    if not isinstance(domains, MappingNode):
        return text  # params.yaml's own validation will say so
    spans = []
    for _, domain in domains.value:
        entries = domain.value if isinstance(domain, MappingNode) else []
        for key, value in entries:
            if key.value == "images" and isinstance(value, SequenceNode) and value.value:
                places = [str(item.value) for item in value.value]
                found = next((place for place in places if (root / place).exists()), places[0])
                end = value.end_mark if value.flow_style else value.value[-1].end_mark
                spans.append((value.start_mark.index, end.index, found))
    for start, end, place in reversed(spans):
        scalar = place if _PLAIN.fullmatch(place) else json.dumps(place, ensure_ascii=False)
        text = text[:start] + scalar + text[end:]
    return text


def _told(
    params: Params, path: Path, old: str, bodies: dict[str, str], *, changed: bool
) -> list[str]:
    if not changed:
        return [f"{path} has the suite {params.suite} already"]
    holds = f"{len(params.domains)} domains, {len(params.problems)} problems"
    lines = [f"{path}: suite {params.suite}: {holds}, models {', '.join(params.models)}"]
    return lines + [
        f"{key}: the suite's own values replace yours; edit them again if you need to"
        for key in ("rff", "sensitivity")
        if key in bodies and yaml_sections.body_of(old, key, str(path)) not in ("", bodies[key])
    ]


def run(args: argparse.Namespace) -> int:
    """Replace, then say what is missing on disk."""
    for line in use(args.suite):
        sys.stdout.write(f"{line}\n")
    return 0


def add_parser(commands: _SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command."""
    parser = command(
        commands,
        "use",
        "choose a benchmark: put it into params.yaml",
        DESCRIPTION,
        reads="suites/SUITE.yaml, and looks which usual place has the images",
        writes="params.yaml, if the result is valid",
        examples="referee use office31\nreferee use suites/mine.yaml",
    )
    parser.add_argument(
        "suite", metavar="SUITE", help="a name in suites/ (digits is the default), or a YAML file"
    )
    parser.set_defaults(run=run)
