"""Pin the order of the classes: write it into suite.yaml.

Classes arrive in alphabetical order unless suite.yaml lists them, so a new
class moves others, and their images, to other tasks. This writes the order
that the manifests have, as `tasks` of each dataset. From then on new classes
arrive last and old images keep their tasks. Nothing but `tasks` runs again,
and it writes what it wrote before.

reads:  suite.yaml, cache/manifests/DOMAIN/classes.csv
writes: suite.yaml
examples:
  dvc repro tasks && referee pin
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from ruamel.yaml import YAML

from pipeline import paths
from pipeline.datasets.manifest_files import ClassRow, read_classes
from pipeline.errors import InputError
from pipeline.params import SUITE_FILE, Suite, parse_suite
from pipeline.validated_yaml import read_yaml
from pipeline.write_aside import write_aside


def pin() -> list[str]:
    """Write `tasks` of every dataset that has none; return lines for the user."""
    suite = parse_suite(read_yaml(SUITE_FILE))
    yaml = YAML()  # the round trip keeps comments and quotes
    yaml.preserve_quotes = True
    yaml.width = 4096
    data = yaml.load(SUITE_FILE.read_text(encoding="utf-8"))
    lines = []
    for name, dataset in suite.datasets.items():
        if dataset.tasks:
            lines.append(f"datasets.{name}.tasks: stands already")
            continue
        classes = arrived(suite, name)
        tasks: list[list[str]] = [[] for _ in range(classes[-1].task + 1)]
        for row in classes:
            tasks[row.task].append(row.class_name)
        data["datasets"][name].pop("class_order_seed", None)  # the list holds what it drew
        data["datasets"][name]["tasks"] = tasks
        lines.append(f"datasets.{name}.tasks: {len(classes)} classes in {len(tasks)} tasks")
    with write_aside(SUITE_FILE) as aside, aside.open("w", encoding="utf-8") as file:
        yaml.dump(data, file)
    return lines


def arrived(suite: Suite, dataset: str) -> list[ClassRow]:
    """Return the classes of a dataset in order of arrival, from the manifest of one of its domains."""
    files = [
        paths.manifest(name) / "classes.csv"
        for name, domain in suite.domains.items()
        if domain.dataset == dataset
    ]
    for file in files:
        if file.is_file():
            return read_classes(file)
    raise InputError(
        f"{files[0] if files else Path('cache/manifests')}: no such file, so {dataset!r} has no order yet; "
        "run dvc repro tasks first"
    )


def run(args: argparse.Namespace) -> int:
    """Pin the order, and say where it stands."""
    del args
    for line in pin():
        sys.stdout.write(f"{SUITE_FILE}: {line}\n")
    return 0


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add no option."""
    del parser
