"""What params.yaml names, and whether it is there."""

from __future__ import annotations

from pathlib import Path

from pipeline.encoders.origin import CHECKPOINT_SUFFIXES
from pipeline.params import Model, Params


def checkpoints(model: Model, root: Path) -> list[Path]:
    """Return the weights (or imported embeddings) that a model's origin is or holds."""
    origin = root / model.origin
    if origin.is_dir():
        return sorted(file for file in origin.iterdir() if file.suffix in CHECKPOINT_SUFFIXES)
    return [origin] if origin.is_file() else []


def comes_from_the_hub(model: Model, root: Path) -> bool:
    """Tell whether the library would download the weights: the origin is a folder without any."""
    return (
        model.library != "imported"
        and (root / model.origin).is_dir()
        and not checkpoints(model, root)
    )


def missing_inputs(params: Params, root: Path) -> list[str]:
    """Return one line, with the remedy, for each thing that has to be put on disk first."""
    lines = []
    for key, domain in params.domains.items():
        if key not in params.generated and not (root / domain.images).exists():
            lines.append(
                f"missing: {domain.images} (domains.{key}.images): unpack the images there, "
                f"or change the key; suites/{params.suite}.yaml says what is expected"
            )
    lines += [
        f"missing: {image_list.file} (lists.{key}.file): put the list there"
        for key, image_list in params.lists.items()
        if not (root / image_list.file).exists()
    ]
    for key, model in params.models.items():
        if comes_from_the_hub(model, root):
            lines.append(
                f"note: {model.origin} holds no weights (models.{key}.origin): they are downloaded "
                f"from the hub at first use; without it, see {model.origin}/README.md"
            )
        elif not checkpoints(model, root):
            lines.append(
                f"missing: {model.origin} (models.{key}.origin): put the file there, or make a "
                "folder of that name for weights from the hub"
            )
    return lines
