"""Stage `generate@DOMAIN`: write the images of an embedded domain from installed packages."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from pipeline.datasets import digits
from pipeline.errors import exits_cleanly
from pipeline.params import load_params, named


@exits_cleanly
def main(argv: list[str] | None = None) -> int:
    """Write the folder that `generated.DOMAIN.folder` names, one folder per class."""
    parser = argparse.ArgumentParser(prog="python -m pipeline.stages.generate", description=__doc__)
    parser.add_argument("domain", metavar="DOMAIN", help="a key of `generated` in params.yaml")
    key = parser.parse_args(argv).domain
    generated = load_params().generated
    settings = named("generated", generated, key)
    digits.generate(key, Path(settings.folder), seed=settings.seed, per_class=settings.per_class)
    return 0


if __name__ == "__main__":
    sys.exit(main())
