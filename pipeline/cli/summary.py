"""`referee summary`: what the pipeline produced, in one table; `make repro` ends with it."""

from __future__ import annotations

import argparse
import json
import sys
from typing import TYPE_CHECKING, Any

from pipeline.errors import StoreError
from pipeline.params import Params, load_params
from pipeline.stages import places

if TYPE_CHECKING:
    from argparse import _SubParsersAction


def probe_table(params: Params) -> str:
    """Return the first figures of every domain."""
    header = f"{'domain':16}{'images':>8}{'zero-shot':>11}{'nearest mean':>16}   cosine to original"
    lines = [
        f"suite {params.suite}: vision {params.vision}, language {params.language}",
        header,
        "-" * len(header),
    ]
    for domain in params.domains:
        probe = _read(domain)
        views = ", ".join(f"{view} {cosine:.3f}" for view, cosine in probe["view_cosine"].items())
        nearest = f"{probe['nearest_mean']:.1%} ± {100 * probe['nearest_mean_sd']:.1f}"
        lines.append(
            f"{domain:16}{probe['images']:8d}{probe['zero_shot']:11.1%}{nearest:>16}   {views or '-'}"
        )
    return "\n".join(lines) + "\n"


def _read(domain: str) -> dict[str, Any]:
    path = places.probe(domain)
    try:
        read: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise StoreError(f"{path}: no such file; run dvc repro first") from None
    except ValueError:
        raise StoreError(f"{path}: not JSON; run dvc repro --force probe@{domain}") from None
    return read


def run(args: argparse.Namespace) -> int:  # noqa: ARG001
    """Print the table and where the features are."""
    params = load_params()
    sys.stdout.write(
        f"\n{probe_table(params)}\nembeddings: cache/embeddings/DOMAIN/MODEL.zarr"
        f"  (referee inspect cache/embeddings/{next(iter(params.domains))}/{params.vision}.zarr)\n"
    )
    return 0


def add_parser(commands: _SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command."""
    parser = commands.add_parser("summary", help="what the pipeline produced", description=__doc__)
    parser.set_defaults(run=run)
