"""Stage `image_list@NAME`: bring a dataset's image list into cache/, checked line by line.

So `manifest` can depend on the lists, wherever a dataset has them, without a name for each.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from pipeline.datasets.image_lists import read_image_list
from pipeline.errors import exits_cleanly
from pipeline.params import load_params, named
from pipeline.stages import places
from pipeline.write_aside import write_aside


@exits_cleanly
def main(argv: list[str] | None = None) -> int:
    """Write cache/lists/NAME.txt, byte for byte the file that `lists.NAME.file` names."""
    parser = argparse.ArgumentParser(
        prog="python -m pipeline.stages.image_list", description=__doc__.splitlines()[0]
    )
    parser.add_argument("name", metavar="NAME", help="a key of `lists` in params.yaml")
    name = parser.parse_args(argv).name
    lists = load_params().lists
    source = Path(named("lists", lists, name).file)
    read_image_list(source)
    with write_aside(places.image_list(name)) as aside:
        aside.write_bytes(source.read_bytes())
    return 0


if __name__ == "__main__":
    sys.exit(main())
