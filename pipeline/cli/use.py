"""Choose a suite: copy suites/NAME.yaml to suite.yaml.

A suite says which images, which models, and what is adapted to what. Nothing
else is touched: params.yaml stays yours, and the results of each suite are in
a folder of their own. If the file lists several usual folders of a domain's
images, the one that is on your disk is written.

reads:  suites/NAME.yaml; params.yaml, to say where its settings differ
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
    """Copy the suite of a name or file to suite.yaml; return lines for the user. ``force``: lose an edited one."""
    file = root / SUITES / f"{suite}.yaml"
    if suite.endswith((".yaml", ".yml")) or "/" in suite:
        file = Path(suite)
        if not file.is_file():
            raise ParamsError(f"{file}: no such file; name a suite's YAML file")
    elif not file.is_file():
        names = [found.stem for found in file.parent.glob("*.yaml")]
        raise ParamsError(f"{file.parent}: there is no suite {suite!r}{did_you_mean(suite, names)}")
    content = with_folders(file, lambda folder: (root / folder).exists())
    chosen = parse_suite(commented_yaml.load(content.decode()), file)
    target = root / SUITE_FILE
    if not force and is_edited(target, root / SUITES):
        copy = root / SUITES / "mine.yaml"
        if copy.exists():  # it may be the file that was edited
            copy = copy.with_name("kept.yaml")
        raise ParamsError(
            f"{target}: was edited, or is a copy of a suite that was edited since; keep it with "
            f"`cp {target} {copy}`, or replace it with --force"
        )
    with write_aside(target) as aside:
        aside.write_bytes(content)
    holds = f"{counted(len(chosen.domains), 'domain')}, {counted(len(chosen.problems), 'problem')}"
    return [
        f"{target}: suite {chosen.suite}, {holds}, models {', '.join(chosen.models)}",
        *other_settings(chosen, root / PARAMS_FILE),
        "next: `referee doctor` says what is missing on disk, `dvc repro` runs the suite",
    ]


def is_edited(target: Path, suites: Path) -> bool:
    """Tell whether suite.yaml is something else than a copy of a file in suites/."""
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
        with suppress(ParamsError):  # a file that is not YAML, of which this is no copy
            if content == with_folders(file, written.__contains__):
                return False
    return True


def with_folders(file: Path, is_meant: Callable[[str], bool]) -> bytes:
    """Return the text of a suite with one of every list of usual folders: the first that is meant, else the first."""
    listed = {
        key: list(map(str, images)) for key, images in _images(file).items() if images and isinstance(images, list)
    }
    if not listed:
        return file.read_bytes()
    data = commented_yaml.load(file.read_text(encoding="utf-8"))
    for key, folders in listed.items():
        data["domains"][key]["images"] = next(filter(is_meant, folders), folders[0])
    return commented_yaml.dump(data).encode()


def _images(file: Path) -> dict[str, Any]:
    """Return `images` of every domain of a suite; of a file that is none nothing: `parse_suite` says what it lacks."""
    try:
        return {key: domain.get("images") for key, domain in read_yaml(file)["domains"].items()}
    except (LookupError, TypeError, AttributeError):
        return {}


def other_settings(suite: Suite, params: Path) -> list[str]:
    """Return a line for every setting of params.yaml that differs from the suite's published one."""
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
    parser.add_argument("suite", metavar="NAME", help="a name in suites/ (digits is the default), or a YAML file")
    parser.add_argument("--force", action="store_true", help="replace a suite.yaml that you edited")
