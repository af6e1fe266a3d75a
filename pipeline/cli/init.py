"""Create a project in a new folder.

The folder is a git and DVC repository with the graph of stages (dvc.yaml), the
parameters (params.yaml), the chosen suite (suite.yaml) and all other suites in
suites/. Stages run the installed package, so no clone of its repository is
needed. After `pip install --upgrade`, run `referee upgrade` in the project.

reads:  files installed with the package
writes: FOLDER, which must not exist; a failure leaves nothing behind
examples:
  referee init my-project
  referee init photos --suite template
"""

import logging
import shlex
from argparse import ArgumentParser
from collections.abc import Iterator
from pathlib import Path

from pipeline.cli.use import use
from pipeline.config.params import SUITE_FILE, parse_suite
from pipeline.errors import InputError, ParamsError, did_you_mean
from pipeline.installed_project import REPLACED_FOLDERS, copy_file, project_files, write_graph
from pipeline.validated_yaml import read_yaml
from pipeline.write_aside import write_aside

COPIED = ("params.yaml", ".dvcignore", ".gitattributes", "suites", "weights/README.md", *REPLACED_FOLDERS)
WEIGHTS = "weights/digits"  # the small models of the default suite
IGNORED = """\
/.venv
/.referee/
/private/
/data/
/cache/
/results/
/dvc_plots/
/weights/*
!/weights/README.md
!/weights/digits/
"""
CONFIG = "[core]\n    analytics = false\n    check_update = false\n"
README = """\
# {name}

A project of [REFEREE on features that are computed once](https://pypi.org/project/referee-pipeline/), suite `{suite}`.

    git add . && git commit -m "New project"
    referee doctor       # shows what is missing and how to get it
    dvc repro            # from images to results/{suite}/report.html
    referee summary

| file | contents |
|---|---|
| `suite.yaml` | the images, models and problems; `referee use NAME` switches to another suite of `suites/` |
| `params.yaml` | every number you may change: `dvc exp run -S rff.D=2000` |
| `dvc.yaml` | the graph of stages; after you install another version, `referee upgrade` updates it |
| `weights/`, `data/` | models and images |

Next: [your own images](docs/how-to/own-data.md) ·
[Parquet, shards and tables](docs/how-to/image-sources.md) ·
[parameters](docs/parameters.md) · [Python](docs/how-to/python.md)
"""


def init(folder: Path, suite: str) -> Iterator[str]:
    """Create a project in a folder that does not exist yet; yield lines for the user, next steps included."""
    if folder.exists():
        raise InputError(f"{folder}: already exists; name a new folder")
    suites = [file.stem for file in (project_files() / "suites").glob("*.yaml")]
    if suite not in suites:
        raise ParamsError(f"--suite {suite}: no such suite{did_you_mean(suite, suites)}")
    with write_aside(folder) as aside:
        _make_repositories(aside)
        for name in COPIED:
            copy_file(name, aside / name)
        use(suite, aside)
        suite_settings = parse_suite(read_yaml(aside / SUITE_FILE))
        if any(Path(model.origin).is_relative_to(WEIGHTS) for model in suite_settings.models.values()):
            copy_file(WEIGHTS, aside / WEIGHTS)
        write_graph(aside / "dvc.yaml")
        readme = README.format(name=folder.resolve().name, suite=suite_settings.suite)
        for file, text in (("README.md", readme), (".gitignore", IGNORED), (".dvc/config", CONFIG)):
            (aside / file).write_text(text, encoding="utf-8")
    yield f"{folder}: a project of the suite {suite}"
    quoted = shlex.quote(str(folder))
    yield f'next: cd {quoted}, `git add . && git commit -m "New project"`, `referee doctor`, `dvc repro`'


def _make_repositories(folder: Path) -> None:
    from dvc.repo import Repo
    from scmrepo.git import Git

    folder.mkdir()
    Git.init(str(folder)).close()  # type: ignore[no-untyped-call]
    logging.getLogger("dvc").setLevel(logging.WARNING)  # `init` prints its own next steps
    Repo.init(str(folder)).close()


def add_arguments(parser: ArgumentParser) -> None:
    """Add the options of the command."""
    parser.add_argument("folder", metavar="FOLDER", type=Path, help="a folder that does not exist")
    parser.add_argument("--suite", metavar="NAME", default="digits", help="a shipped suite (default: %(default)s)")
