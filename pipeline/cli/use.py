"""Choose a suite: copy suites/NAME.yaml to suite.yaml.

A suite defines the domains (images), the models and the problems of a project.
Only suite.yaml is written: params.yaml is yours, and each suite has its own
folder of results. If a suite lists several usual folders for a domain's
images, the one that exists on your disk is chosen.

reads:  suites/NAME.yaml; params.yaml, to list settings that differ from the
        published ones
writes: suite.yaml, if the suite is valid
examples:
  referee use office31
  referee use suites/mine.yaml
"""

from argparse import ArgumentParser
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from pipeline import commented_yaml
from pipeline.config.params import PARAMS_FILE, SUITE_FILE, parse_settings, parse_suite
from pipeline.config.suite import Suite
from pipeline.errors import ParamsError, counted, did_you_mean
from pipeline.validated_yaml import read_yaml
from pipeline.write_aside import write_aside

SUITES = Path("suites")


def use(suite: str, root: Path = Path(), *, force: bool = False) -> list[str]:
    """Copy a suite, named or a file, to suite.yaml (if edited, only with ``force``); return lines for the user."""
    file = root / SUITES / f"{suite}.yaml"
    if suite.endswith((".yaml", ".yml")) or "/" in suite:
        file = Path(suite)
        if not file.is_file():
            raise ParamsError(f"{file}: no such file; name a suite's YAML file")
    elif not file.is_file():
        names = [path.stem for path in file.parent.glob("*.yaml")]
        raise ParamsError(f"{file.parent}: there is no suite {suite!r}{did_you_mean(suite, names)}")
    content = choose_folders(file, lambda folder: (root / folder).exists())
    new_suite = parse_suite(commented_yaml.load(content.decode()), file)
    target = root / SUITE_FILE
    if not force and is_edited(target, root / SUITES):
        copy = root / SUITES / "mine.yaml"
        if copy.exists():  # possibly the suite that was edited
            copy = copy.with_name("kept.yaml")
        raise ParamsError(
            f"{target}: was edited, or its suite in {SUITES} has changed since; keep it with "
            f"`cp {target} {copy}`, or replace it with --force"
        )
    with write_aside(target) as aside:
        aside.write_bytes(content)
    contents = f"{counted(len(new_suite.domains), 'domain')}, {counted(len(new_suite.problems), 'problem')}"
    return [
        f"{target}: suite {new_suite.suite}, {contents}, models {', '.join(new_suite.models)}",
        *differing_settings(new_suite, root / PARAMS_FILE),
        "next: `referee doctor` shows what is missing on disk, `dvc repro` runs the suite",
    ]


def is_edited(target: Path, suites: Path) -> bool:
    """Return whether suite.yaml is anything but a copy of a file in suites/."""
    if not target.exists():
        return False
    content, files = target.read_bytes(), list(suites.glob("*.yaml"))
    if any(content == file.read_bytes() for file in files):
        return False
    try:
        written = {str(images) for images in _images(target).values()}
    except ParamsError:
        return True
    for file in files:
        with suppress(ParamsError):  # not YAML, so suite.yaml is not a copy of it
            if content == choose_folders(file, written.__contains__):
                return False
    return True


def choose_folders(file: Path, is_wanted: Callable[[str], bool]) -> bytes:
    """Return a suite's text with each list of usual folders reduced to the first wanted one, or else the first."""
    candidates = {
        key: list(map(str, images)) for key, images in _images(file).items() if images and isinstance(images, list)
    }
    if not candidates:
        return file.read_bytes()
    data = commented_yaml.load(file.read_text(encoding="utf-8"))
    for key, folders in candidates.items():
        data["domains"][key]["images"] = next(filter(is_wanted, folders), folders[0])
    return commented_yaml.dump(data).encode()


def _images(file: Path) -> dict[str, Any]:
    """Return `images` of each domain of a suite, {} if the file is not a suite: `parse_suite` reports the error."""
    try:
        return {key: domain.get("images") for key, domain in read_yaml(file)["domains"].items()}
    except (LookupError, TypeError, AttributeError):
        return {}


def differing_settings(suite: Suite, params: Path) -> list[str]:
    """Return a line for each setting of params.yaml that differs from the suite's published value."""
    try:
        settings = parse_settings(read_yaml(params), params)
    except ParamsError as error:
        return str(error).splitlines()
    lines = []
    for section, values in suite.published.items():
        for key, published in values.items():
            current = getattr(getattr(settings, section), key)
            if current != published:
                value = str(published).replace(" ", "")
                lines.append(
                    f"{params}: {section}.{key} is {current}, published with {published}: "
                    f"`dvc exp run -S {section}.{key}={value}`, or edit {params}"
                )
    return lines


def add_arguments(parser: ArgumentParser) -> None:
    """Add the options of the command."""
    parser.add_argument("suite", metavar="NAME", help="name of a suite in suites/, or a YAML file")
    parser.add_argument("--force", action="store_true", help="replace a suite.yaml that was edited")
