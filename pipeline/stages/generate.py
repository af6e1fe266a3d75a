"""Stage `generate@DOMAIN`: write the images of a built-in domain, made from files in installed packages."""

from pathlib import Path

from pipeline.datasets import digits
from pipeline.stage import Context, stage


@stage(per=("generated",), reads=("generated",), version=1)
def generate(context: Context, domain: str) -> str:
    """Write the images to the folder `generated.DOMAIN.folder`, in one subfolder per class."""
    settings = context.params.generated[domain]
    digits.generate(domain, Path(settings.folder), seed=settings.seed, per_class=settings.per_class)
    return f"images in {settings.folder}"
