"""`referee summary`: what the pipeline produced, in one table; `make repro` ends with it.

With --remote: what a teammate's run produced, read straight from the DVC remote; nothing is pulled.
"""

from __future__ import annotations

import argparse
import json
import sys
from contextlib import chdir
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from pipeline.cli.help_text import command
from pipeline.errors import StoreError
from pipeline.params import Params, load_params
from pipeline.report.suite_tables import headline_table
from pipeline.report.table_formats import to_text
from pipeline.stages import places
from pipeline.stages.tables import read_suite

if TYPE_CHECKING:
    from argparse import _SubParsersAction


DESCRIPTION = """\
First how good the features are (zero-shot and nearest-mean accuracy of every
domain), then the accuracy of every problem: CLIP alone, the source model
alone, the method and its variants. `make repro` ends with it.
"""


def probe_table(params: Params) -> str:
    """Return the first figures of every domain."""
    header = f"{'domain':16}{'images':>8}{'zero-shot':>11}{'nearest mean':>16}   cosine to original"
    lines = [
        f"features of suite {params.suite}: vision {params.vision}, language {params.language}",
        header,
        "-" * len(header),
    ]
    for domain in params.domains:
        probe = _read(places.probe(domain), f"probe@{domain}")
        views = ", ".join(f"{view} {cosine:.3f}" for view, cosine in probe["view_cosine"].items())
        nearest = f"{probe['nearest_mean']:.1%} ± {100 * probe['nearest_mean_sd']:.1f}"
        lines.append(
            f"{domain:16}{probe['images']:8d}{probe['zero_shot']:11.1%}{nearest:>16}   {views or '-'}"
        )
    return "\n".join(lines) + "\n"


def problem_table(params: Params) -> str:
    """Return the headline of every problem: A_T in percent, mean ± standard deviation over the seeds."""
    header = (
        f"{'problem':28}{'CLIP zero-shot':>15}{'source only':>13}{'adapted':>15}"
        f"{'gain':>8}{'forgetting':>12}{'pseudo-labels':>15}"
    )
    variant = params.method.variant
    changed = [f"{key} {value}" for key, value in params.method.options.items()]
    told = ", ".join([f"variant {variant}", *changed, f"D {params.rff.D}"])
    lines = [f"final accuracy A_T, {told}", header, "-" * len(header)]
    for name in params.problems:
        found = _read(places.metrics(name), f"evaluate@{name}")
        adapted = f"{found['A_T']:.1f} ± {found['A_T_sd']:.1f}"
        gain = found["A_T"] - found["source_only_A_T"]
        right = found["pseudo_label_accuracy"]
        labels = "none kept" if right is None else f"{right:.1f}"
        lines.append(
            f"{name:28}{found['clip_only_A_T']:15.1f}{found['source_only_A_T']:13.1f}{adapted:>15}"
            f"{gain:+8.1f}{found['forgetting']:12.1f}{labels:>15}"
        )
    return "\n".join(lines) + "\n"


def headline(params: Params) -> str:
    """Return the variants side by side on every problem, from what `compare` measured."""
    return to_text(headline_table(read_suite(params)))


def _read(path: Path, stage: str) -> dict[str, Any]:
    try:
        read: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise StoreError(
            f"{path}: no such file; run dvc repro, or dvc pull --allow-missing"
        ) from None
    except ValueError:
        raise StoreError(f"{path}: not JSON; run dvc repro --force {stage}") from None
    return read


def tables(params: Params) -> str:
    """Return the tables of what is there."""
    made = [probe_table(params)]
    if params.problems:
        compared = all(places.comparison(name).is_file() for name in params.problems)
        if compared:
            made.append(headline(params))
        if not compared or _is_changed(params):
            made.append(problem_table(params))
    return "\n".join(made)


def _is_changed(params: Params) -> bool:
    """Is the method that `evaluate` scored another than those `compare` runs by their names?"""
    at_default = params.method.variant == "calibrated" and not params.method.options
    return not at_default or not params.refinement.off


def tables_on(remote: str | None, params: Params) -> str:
    """Return the same tables from the files on a DVC remote that dvc.lock names."""
    from pipeline.cli.remote_files import RemoteFiles

    files = RemoteFiles(remote)
    wanted = [places.probe(domain) for domain in params.domains]
    wanted += [places.comparison(name) for name in params.problems]
    if _is_changed(params):
        wanted += [places.metrics(name) for name in params.problems]
    content = {path: files.read(path) for path in wanted}
    with TemporaryDirectory() as folder, chdir(folder):
        for path, text in content.items():
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(text)
        made = tables(params)
    return f"{made}\non {files.name}, as dvc.lock names it ({files.received / 1e3:.1f} kB read)\n"


def run(args: argparse.Namespace) -> int:
    """Print the tables and where the features are."""
    params = load_params()
    if args.remote or args.remote_name:
        sys.stdout.write("\n" + tables_on(args.remote_name, params))
        return 0
    store = places.embeddings(next(iter(params.domains)), params.vision)
    sys.stdout.write("\n" + tables(params))
    sys.stdout.write(
        f"\nfeatures: cache/embeddings/DOMAIN/MODEL.zarr (try: referee inspect {store})\n"
    )
    if places.report().is_file():
        sys.stdout.write(f"report: {places.report()} (open it in a browser; it needs no network)\n")
    return 0


def add_parser(commands: _SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command."""
    parser = command(
        commands,
        "summary",
        "show what the pipeline produced, in one table",
        DESCRIPTION,
        reads="params.yaml, results/ (`dvc repro` makes it, `dvc pull` fetches it)",
        writes="nothing",
        examples="referee summary",
    )
    parser.add_argument(
        "--remote", action="store_true", help="what is on the DVC remote, pulling nothing"
    )
    parser.add_argument("--remote-name", metavar="NAME", help="the same, from another remote")
    parser.set_defaults(run=run)
