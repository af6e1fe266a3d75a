"""Stage `image_list@NAME`: copy a dataset's list of images into the cache, checked line by line.

VisDA and DomainNet say in text files which images a domain has. `images` of such a domain is cache/lists/DOMAIN, the
folder of the copies: DVC then follows the lists, and not each of several hundred thousand images.
"""

from __future__ import annotations

from pathlib import Path

from pipeline import paths
from pipeline.datasets.sources.text_list import read_image_list
from pipeline.stage import Context, stage
from pipeline.write_aside import write_aside


@stage(per=("lists",), reads=("lists",), version=1)
def image_list(context: Context, name: str) -> str:
    """Write a checked copy of the file that `lists.NAME.file` names."""
    entry = context.params.lists[name]
    file = Path(entry.file)
    images = read_image_list(file)
    with write_aside(paths.image_list(entry.domain, name)) as aside:
        aside.write_bytes(file.read_bytes())
    return f"{len(images)} images"
