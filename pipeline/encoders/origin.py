"""Where a model's numbers come from: a file, or a folder that holds one or waits for one."""

from __future__ import annotations

from pathlib import Path

from pipeline.errors import ModelError, listed

CHECKPOINT_SUFFIXES = (".safetensors", ".pth", ".pt", ".bin")
# The name that open_clip models have on the hub. Where a model's folder holds one, it describes the architecture;
# beside the weights, so that DVC sees a change of either as a change of the model's origin.
CLIP_CONFIG = "open_clip_config.json"


def find_checkpoint(origin: Path) -> Path | None:
    """Return the checkpoint file that ``origin`` is or holds; None for a folder without one (hub download)."""
    if origin.is_file():
        return origin
    if not origin.is_dir():
        raise ModelError(
            f"{origin}: no such file or folder; give a checkpoint file, or a folder that holds one"
        )
    found = sorted(
        child
        for child in origin.iterdir()
        if child.suffix in CHECKPOINT_SUFFIXES and child.is_file()
    )
    if len(found) > 1:
        names = listed(child.name for child in found)
        raise ModelError(
            f"{origin}: holds {len(found)} checkpoints ({names}); name the file itself"
        )
    return found[0] if found else None
