"""Stage `refine@PROBLEM`: the two steps that only the paper's text has, off by default (docs/method.md).

On, it refines the target's views adversarially against the source model, lets them attend to the original, or both,
and writes their embeddings for `adapt` to use. It reads target images, pseudo-labels and the source *model*; no label.
Off, it writes an empty store and loads no backbone. Writes cache/refined/PROBLEM.zarr.
"""

from __future__ import annotations

import argparse
import sys

from pipeline.errors import exits_cleanly
from pipeline.params import load_params, named
from pipeline.stages import places
from pipeline.store.refined_store import write_off


@exits_cleanly
def main(argv: list[str] | None = None) -> int:
    """Write cache/refined/PROBLEM.zarr."""
    parser = argparse.ArgumentParser(prog="python -m pipeline.stages.refine", description=__doc__)
    parser.add_argument("problem", metavar="PROBLEM", help="a key of `problems` in params.yaml")
    name = parser.parse_args(argv).problem
    params = load_params()
    named("problems", params.problems, name)
    if params.refinement.off:
        write_off(places.refined(name), name)
        told = "off (refinement.steps: 0, mutual_attention: false)"
    else:
        from pipeline.stages.refine_views import refine_views  # torch, where there is work for it

        told = refine_views(params, name)
    sys.stdout.write(f"refine {name}: {told}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
