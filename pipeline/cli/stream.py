"""Add images to a stream, or forget those of a step.

A stream is a sequence of steps. Each step is a folder of unlabelled images.
`dvc repro` labels them and adds them to the statistics of all earlier steps,
whose images are no longer needed.

`add` writes a domain and a step to suite.yaml, keeping its comments, and an
empty file for corrections. Run `forget` before you delete a step's images: the
step's state is kept, and `dvc repro` no longer asks for the images.

reads:  suite.yaml, and cache/manifests/SOURCE/tasks if the dataset lists no
        classes
writes: suite.yaml, corrections/STEP.csv; `forget` also dvc.lock
examples:
  referee stream add camera data/camera/week1 --source amazon
  referee stream add camera data/camera/week2 --classes mug,laptop
  referee stream forget camera-week1
"""

import re
import subprocess
import sys
from argparse import ArgumentParser
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ruamel.yaml.comments import CommentedMap

from pipeline import paths
from pipeline.commented_yaml import add_entry, dump, in_one_line, load
from pipeline.config.params import SUITE_FILE, get_entry, newest_step, parse_suite, streams_of
from pipeline.config.suite import Suite
from pipeline.datasets.prompts import spoken
from pipeline.datasets.task_files import CLASSES, read_classes
from pipeline.errors import InputError, ParamsError, RefereeError, did_you_mean, listed
from pipeline.method.variants import MethodOptions
from pipeline.problem.step_tables import NO_CORRECTIONS
from pipeline.stage import domain_images
from pipeline.store.stream_state import read_stream_classes
from pipeline.validated_yaml import read_yaml
from pipeline.write_aside import write_aside, write_text


@contextmanager
def edited_suite() -> Iterator[Any]:
    """Yield suite.yaml as nested mappings, then validate and write them; raise ParamsError if a key is wrong."""
    data = load(SUITE_FILE.read_text(encoding="utf-8"))
    yield data
    parse_suite(data)
    write_text(SUITE_FILE, dump(data))


def add(
    stream: str,
    folder: Path,
    *,
    classes: list[str] | None,
    new_classes: list[str] | None,
    source: str | None,
    step: str | None,
    after: str | None,
) -> Iterator[str]:
    """Write a domain and a step to suite.yaml, and an empty file for corrections."""
    suite = parse_suite(read_yaml(SUITE_FILE))
    if not folder.is_dir():
        raise InputError(f"{folder}: no such folder; name the folder of the new images")
    if not re.fullmatch(r"[A-Za-z0-9_]+", stream):
        raise ParamsError(f"stream {stream!r}: use only letters, digits and _; a step is called STREAM-STEP")
    name = re.sub(r"[^A-Za-z0-9_]", "_", step or folder.resolve().name)
    key, domain = f"{stream}-{name}", f"{stream}_{name}"
    earlier = streams_of(suite).get(stream, {})
    if key in earlier or domain in suite.domains:
        raise ParamsError(f"{SUITE_FILE}: {key} or its domain {domain} already exists; choose another name with --step")
    previous = newest_step(suite, stream, after) if earlier else None
    source = _source(suite, earlier[previous].source if previous else None, source)
    template_domain = suite.steps[previous].domain if previous in suite.steps else source
    corrections = Path(f"corrections/{key}.csv")
    with edited_suite() as data:
        dataset = _dataset(suite, source, previous)
        dataset, classes = _write_classes(
            data, suite, dataset, source=source, domain=domain, classes=classes, new=new_classes or []
        )
        data["domains"][domain] = CommentedMap(
            dataset=dataset,
            images=folder.as_posix(),
            labels="none",
            views=in_one_line(MethodOptions().views),
            templates=in_one_line(suite.domains[template_domain].templates),
        )
        entry = {
            "source": source,
            "domain": domain,
            "classes": "all" if classes is None else classes,
            "before": f"source/{source}" if previous is None else f"streams/{previous}",
            "corrections": corrections.as_posix(),
        }
        add_entry(data, "steps", key, entry)
        if not domain_images(parse_suite(data), domain).images:
            raise InputError(f"{folder}: no images in this folder; add the step when some have arrived")
    if not corrections.exists():
        write_text(corrections, NO_CORRECTIONS)
    yield f"{SUITE_FILE}: {key} after {previous or f'the source {source}'}, images {folder}, no labels"
    table = paths.step_images(suite.suite, key)
    yield f"next: `dvc repro step@{key}`; then check {table} and write corrections to {corrections}"


def _source(suite: Suite, stream_source: str | None, requested: str | None) -> str:
    """Return the source of a step: the stream's or, for a first step, the requested or the only one."""
    if stream_source is not None:
        if requested not in (None, stream_source):
            raise ParamsError(f"--source {requested}: the stream's source is {stream_source}; start another stream")
        return stream_source
    if requested is None and len(suite.sources) != 1:
        raise ParamsError(f"--source: name the source whose model labels the images, one of {listed(suite.sources)}")
    source = requested or next(iter(suite.sources))
    get_entry("sources", suite.sources, source)
    return source


def _write_classes(
    data: Any, suite: Suite, dataset: str, *, source: str, domain: str, classes: list[str] | None, new: list[str]
) -> tuple[str, list[str] | None]:
    """Write all classes of a step to its dataset; return the dataset and the classes that its images may have."""
    names = suite.datasets[dataset].class_names
    if not names:
        names = {name: spoken(name) for name in _class_names(suite, source)}
        data["datasets"][dataset]["class_names"] = in_one_line(names)
    known = [*names, *new]
    for name in classes or ():
        if name not in known:
            raise ParamsError(
                f"--classes: {name!r} is not a class of the source{did_you_mean(name, known)}; "
                f"if it is new, name it with --new-classes {name}"
            )
    if not new:
        return dataset, classes
    # a new dataset, so that no earlier step runs again
    names = names | {name: spoken(name) for name in new}
    entry = {"classes_per_task": suite.datasets[dataset].classes_per_task, "class_names": names}
    add_entry(data, "datasets", domain, entry)
    return domain, known if classes is None else [*classes, *new]


def _dataset(suite: Suite, source: str, previous: str | None) -> str:
    """Return the dataset whose classes a step may have: that of the previous step or of the source."""
    if previous in suite.steps:
        return suite.domains[suite.steps[previous].domain].dataset
    first = suite.domains[source].dataset
    if previous is None:
        return first
    # a past step: suite.yaml no longer has its domain
    classes = set(read_stream_classes(paths.stream_state(previous)))
    return next((key for key, dataset in suite.datasets.items() if classes <= {*dataset.class_names}), first)


def _class_names(suite: Suite, source: str) -> list[str]:
    """Return the classes of a source whose dataset takes them from folder names."""
    manifest = paths.manifest(source)
    if (manifest / CLASSES).is_file():
        return [row.class_name for row in read_classes(manifest)]
    classes = domain_images(suite, source).class_names()
    if not classes:
        raise InputError(f"{suite.domains[source].images}: no class folders; run dvc repro source@{source} first")
    return classes


def forget(step: str) -> Iterator[str]:
    """Move a step from `steps` to `past` and remove its domain from the graph."""
    suite = parse_suite(read_yaml(SUITE_FILE))
    entry, state = get_entry("steps", suite.steps, step), paths.stream_state(step)
    if not state.is_dir():
        raise InputError(
            f"{state}: no such state; run dvc repro step@{step} before its images are forgotten, "
            f"or, if the step shall never run, delete its entries under `steps` and `domains` of {SUITE_FILE}"
        )
    used_domains = {*suite.sources, *(d for p in suite.problems.values() for d in (p.source, p.target))}
    used_domains |= {other.domain for key, other in suite.steps.items() if key != step}
    original = SUITE_FILE.read_bytes()
    with edited_suite() as data:
        del data["steps"][step]
        add_entry(data, "past", step, {"source": entry.source, "before": entry.before})
        if entry.domain not in used_domains:
            del data["domains"][entry.domain]
    command = [sys.executable, "-m", "dvc", "commit", "--quiet", "--force", f"past@{step}"]
    result = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603
    if result.returncode:
        with write_aside(SUITE_FILE) as aside:
            aside.write_bytes(original)
        raise RefereeError(f"dvc commit past@{step}: {' '.join(result.stderr.split())}; {SUITE_FILE} is unchanged")
    note = ""
    if entry.domain not in used_domains:
        paths.order(entry.domain).unlink(missing_ok=True)
        note = f"; no stage uses its domain {entry.domain} any more, so you may delete its images"
    yield f"{SUITE_FILE}: {step} moved to `past`, its state {state} is kept{note}"


def stream(action: str, **options: Any) -> Iterator[str]:
    """Add or forget a step; yield lines for the user."""
    return add(**options) if action == "add" else forget(**options)


def add_arguments(parser: ArgumentParser) -> None:
    """Add the options of the command."""

    def names(text: str) -> list[str]:
        return text.split(",")

    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    add_parser = actions.add_parser("add", help="add a folder of images as the next step")
    add_parser.add_argument("stream", metavar="STREAM", help="name of the stream: letters, digits and _")
    add_parser.add_argument("folder", metavar="FOLDER", type=Path, help="folder of images, at any depth")
    add_parser.add_argument("--classes", metavar="A,B", type=names, help="classes that may occur (default: all)")
    add_parser.add_argument("--new-classes", metavar="C,D", type=names, help="further classes, unknown to the source")
    add_parser.add_argument("--source", help="a key of `sources`; required for a first step if there are several")
    add_parser.add_argument("--step", help="name of the step (default: the folder's name)")
    add_parser.add_argument("--after", metavar="STEP", help="the previous step (default: the newest)")
    forget_parser = actions.add_parser("forget", help="keep a step's state without its images")
    forget_parser.add_argument("step", metavar="STEP", help="a key of `steps` in suite.yaml")
