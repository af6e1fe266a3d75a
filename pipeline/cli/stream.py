"""Add images that arrive to a stream, or forget those of a step.

A stream is a sequence of steps. Each step is a folder of images that nobody
has labelled; `dvc repro` labels them and folds them into the statistics of
all steps before, whose images are not needed any more.

`add` writes a domain and a step into suite.yaml, whose comments stay, and an
empty file for corrections. `forget` takes a step's images out of the graph:
its state is kept, and no later `dvc repro` asks for what made it.

reads:  suite.yaml, and of cache/: manifests/SOURCE/classes.csv, where the
        dataset names no classes
writes: suite.yaml, corrections/STEP.csv; `forget` also dvc.lock
examples:
  referee stream add camera data/camera/week1 --source amazon
  referee stream add camera data/camera/week2 --classes mug,laptop
  referee stream forget camera-week1
"""

from __future__ import annotations

import argparse
import io
import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.comments import CommentedMap, CommentedSeq

from pipeline import paths
from pipeline.datasets.layouts import class_folders
from pipeline.datasets.manifest_files import read_classes
from pipeline.datasets.prompts import spoken
from pipeline.errors import InputError, ParamsError, RefereeError, did_you_mean, listed
from pipeline.params import SUITE_FILE, PastStep, Step, Suite, named, parse_suite
from pipeline.problem.corrections import EMPTY
from pipeline.validated_yaml import read_yaml
from pipeline.write_aside import write_aside

CORRECTIONS = Path("corrections")
VIEWS = ("original", "zeros", "rand")


def newest_step(suite: Suite, stream: str, after: str | None = None) -> str:
    """Return the key of a stream's last step, or of the one that ``after`` names (``week2`` or ``camera-week2``).

    Parameters
    ----------
    suite : Suite
    stream : str
    after : str, optional

    Raises
    ------
    ParamsError
        If there is no such stream or step, or if the stream is forked and has several last steps.
    """
    states: Mapping[str, Step | PastStep] = {**suite.past, **suite.steps}
    own = [key for key in states if key.partition("-")[0] == stream]
    if not own:
        streams = sorted({key.partition("-")[0] for key in states})
        raise ParamsError(
            f"{SUITE_FILE}: steps: there is no stream {stream!r}{did_you_mean(stream, streams)}"
        )
    if after is not None:
        key = after if "-" in after else f"{stream}-{after}"
        if key not in own:
            raise ParamsError(f"{SUITE_FILE}: steps: there is no {key!r}{did_you_mean(key, own)}")
        return key
    continued = {suite.steps[key].step_before for key in own if key in suite.steps}
    last = [key for key in own if key not in continued]
    if any(key in suite.steps for key in last):
        last = [
            key for key in last if key in suite.steps
        ]  # past steps do not say what came before them
    if len(last) > 1:
        if not any(key in suite.steps for key in last):
            return last[-1]  # forgotten in the order of arrival
        raise ParamsError(
            f"{SUITE_FILE}: the stream {stream} is forked; name one of {listed(last)} with --after"
        )
    return last[0]


def add(
    stream: str,
    folder: Path,
    *,
    classes: list[str] | None = None,
    source: str | None = None,
    step: str | None = None,
    after: str | None = None,
) -> list[str]:
    """Write a domain and a step into suite.yaml; return lines for the user."""
    suite = parse_suite(read_yaml(SUITE_FILE))
    if not folder.is_dir():
        raise InputError(f"{folder}: no such folder; name the folder of the images that arrived")
    if not re.fullmatch(r"[A-Za-z0-9_]+", stream):
        raise ParamsError(
            f"stream {stream!r}: letters, digits and _ only; a step is named STREAM-STEP"
        )
    name = re.sub(r"[^A-Za-z0-9_]", "_", step or folder.resolve().name)
    key, domain = f"{stream}-{name}", f"{stream}_{name}"
    if key in suite.steps or key in suite.past or domain in suite.domains:
        raise ParamsError(
            f"{SUITE_FILE}: {key} or its domain {domain} is there already; choose another with --step"
        )
    begun = any(k.partition("-")[0] == stream for k in (*suite.steps, *suite.past))
    before = newest_step(suite, stream, after) if begun else None
    source = _source(suite, before, source)
    corrections = CORRECTIONS / f"{key}.csv"
    entry = {
        "source": source,
        "domain": domain,
        "classes": "all" if classes is None else classes,
        "before": f"source/{source}" if before is None else f"streams/{before}",
        "corrections": corrections.as_posix(),
    }
    yaml, data = _round_trip()
    dataset = suite.domains[source].dataset
    if not suite.datasets[dataset].class_names:
        names = {name: spoken(name) for name in _class_names(suite, source)}
        data["datasets"][dataset]["class_names"] = _flow(names)
    like = suite.steps[before].domain if before in suite.steps else source
    data["domains"][domain] = CommentedMap(
        dataset=dataset,
        images=folder.as_posix(),
        labels="none",
        views=_flow(list(VIEWS)),
        templates=_flow(list(suite.domains[like].templates)),
    )
    _put(data, "steps", key, entry)
    _write(yaml, data)
    if not corrections.exists():
        with write_aside(corrections) as aside:
            aside.write_text(EMPTY, encoding="utf-8")
    table = paths.step_images(suite.suite, key)
    return [
        f"{SUITE_FILE}: {key} after {before or f'the source {source}'}, images {folder}, no labels",
        f"next: `dvc repro step@{key}`; read {table}, and write what is wrong there into {corrections}",
    ]


def _source(suite: Suite, before: str | None, source: str | None) -> str:
    """Return the source of a step: that of the stream, the one asked for, or the only one there is."""
    if before is not None:
        states: Mapping[str, Step | PastStep] = {**suite.past, **suite.steps}
        found = states[before].source
        if source not in (None, found):
            raise ParamsError(
                f"--source {source}: the stream's source is {found}; start another stream"
            )
        return found
    if source is None and len(suite.sources) == 1:
        return next(iter(suite.sources))
    if source is None:
        raise ParamsError(
            f"--source: name one of {listed(suite.sources)}: whose model labels the images"
        )
    named("sources", suite.sources, source)
    return source


def _class_names(suite: Suite, source: str) -> list[str]:
    """Return the classes of a source whose dataset takes them from the folders."""
    file = paths.manifest(source) / "classes.csv"
    if file.is_file():
        return [row.class_name for row in read_classes(file)]
    found = class_folders(Path(suite.domains[source].images))
    if not found:
        raise InputError(
            f"{suite.domains[source].images}: names no classes; run dvc repro source@{source} first"
        )
    return found


def forget(step: str) -> list[str]:
    """Move a step from `steps` to `past`, with its domain out of the graph; return lines for the user."""
    suite = parse_suite(read_yaml(SUITE_FILE))
    entry = named("steps", suite.steps, step)
    state = paths.stream_state(step)
    if not state.is_dir():
        raise InputError(
            f"{state}: no such state; run dvc repro step@{step} before its images are forgotten"
        )
    yaml, data = _round_trip()
    del data["steps"][step]
    _put(data, "past", step, {"source": entry.source})
    users = [s.domain for key, s in suite.steps.items() if key != step]
    users += [d for p in suite.problems.values() for d in (p.source, p.target)] + list(
        suite.sources
    )
    gone = entry.domain not in users
    if gone:
        del data["domains"][entry.domain]
    former = SUITE_FILE.read_bytes()
    _write(yaml, data)
    command = [sys.executable, "-m", "dvc", "commit", "--quiet", "--force", f"past@{step}"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603
    if done.returncode:
        with write_aside(SUITE_FILE) as aside:
            aside.write_bytes(former)
        raise RefereeError(
            f"dvc commit past@{step}: {' '.join(done.stderr.split())}; {SUITE_FILE} is as it was"
        )
    domain = (
        f"; its domain {entry.domain} is out of the graph, so its images may go" if gone else ""
    )
    return [f"{SUITE_FILE}: {step} is past, its state {state} is kept{domain}"]


def _round_trip() -> tuple[YAML, Any]:
    yaml = YAML()  # keeps comments and quotes
    yaml.preserve_quotes = True
    yaml.width = 4096
    return yaml, yaml.load(SUITE_FILE.read_text(encoding="utf-8"))


def _write(yaml: YAML, data: Any) -> None:
    """Write suite.yaml, if it is valid."""
    stream = io.BytesIO()
    yaml.dump(data, stream)
    parse_suite(YAML(typ="safe", pure=True).load(stream.getvalue()))
    with write_aside(SUITE_FILE) as aside:
        aside.write_bytes(stream.getvalue())


def _put(data: Any, section: str, key: str, entry: Mapping[str, Any]) -> None:
    """Add an entry in one line to a section, which may have been written as {}."""
    if not data.get(section):
        data[section] = CommentedMap()
    data[section].fa.set_block_style()
    data[section][key] = _flow(dict(entry))


def _flow(value: Any) -> Any:
    """Return a mapping or list that is written in one line."""
    if isinstance(value, dict):
        mapping = CommentedMap({key: _flow(item) for key, item in value.items()})
        mapping.fa.set_flow_style()
        return mapping
    if isinstance(value, list):
        sequence = CommentedSeq(value)
        sequence.fa.set_flow_style()
        return sequence
    return value


def run(args: argparse.Namespace) -> int:
    """Change suite.yaml and say what is next."""
    if args.action == "forget":
        lines = forget(args.step)
    else:
        lines = add(
            args.stream,
            args.folder,
            classes=None if args.classes is None else args.classes.split(","),
            source=args.source,
            step=args.step,
            after=args.after,
        )
    for line in lines:
        sys.stdout.write(f"{line}\n")
    return 0


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of the command."""
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    adding = actions.add_parser("add", help="add a folder of images as the next step")
    adding.add_argument("stream", metavar="STREAM", help="letters, digits and _")
    adding.add_argument("folder", metavar="FOLDER", type=Path, help="images, at any depth")
    adding.add_argument("--classes", metavar="A,B", help="those that may be there (default: all)")
    adding.add_argument(
        "--source", help="a key of `sources`; needed for a first step if there are several"
    )
    adding.add_argument("--step", help="its name (default: that of the folder)")
    adding.add_argument("--after", metavar="STEP", help="the step before (default: the newest)")
    forgetting = actions.add_parser("forget", help="keep a step's state without its images")
    forgetting.add_argument("step", metavar="STEP", help="a key of `steps` in suite.yaml")
