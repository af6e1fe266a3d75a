"""Choose a suite: copy suites/NAME.yaml to suite.yaml.

A suite is a benchmark: which images, which models, and what is adapted to
what. Nothing else is touched: params.yaml stays yours, and the results of
each suite are in a folder of their own. Where the file lists several usual
folders of a domain's images, the one on your disk is written.

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
from pipeline.errors import ParamsError, counted, did_you_mean
from pipeline.params import PARAMS_FILE, SUITE_FILE, parse_settings, parse_suite
from pipeline.suite import Suite
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
    content = with_folders(file, lambda _, folders: next((f for f in folders if (root / f).exists()), folders[0]))
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
    content = target.read_bytes()
    files = list(suites.glob("*.yaml"))
    if any(content == file.read_bytes() for file in files):
        return False
    try:
        domains = read_yaml(target)["domains"]
        chosen = {key: domain["images"] for key, domain in domains.items()}
    except (ParamsError, LookupError, TypeError, AttributeError):
        return True

    def as_written(domain: str, folders: list[str]) -> str:
        return chosen[domain] if chosen.get(domain) in folders else folders[0]

    for file in files:
        with suppress(ParamsError):  # a file that is not YAML, of which this is no copy
            if content == with_folders(file, as_written):
                return False
    return True


def with_folders(file: Path, choose: Callable[[str, list[str]], str]) -> bytes:
    """Return the text of a suite, in which ``choose(domain, folders)`` replaces every list of usual folders."""
    domains = _mapping(_mapping(read_yaml(file)).get("domains"))
    listed = {
        key: folders
        for key, domain in domains.items()
        if isinstance(folders := _mapping(domain).get("images"), list) and folders
    }
    if not listed:
        return file.read_bytes()
    data = commented_yaml.load(file.read_text(encoding="utf-8"))
    for key, folders in listed.items():
        data["domains"][key]["images"] = choose(key, [str(folder) for folder in folders])
    return commented_yaml.dump(data)


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


def _mapping(value: Any) -> dict[str, Any]:
    """Return a mapping of the file; whatever else is there is refused by `parse_suite`."""
    return value if isinstance(value, dict) else {}


def add_arguments(parser: ArgumentParser) -> None:
    """Add the options of the command."""
    parser.add_argument("suite", metavar="NAME", help="a name in suites/ (digits is the default), or a YAML file")
    parser.add_argument("--force", action="store_true", help="replace a suite.yaml that you edited")
