"""Find a model's weights: a file, a folder with one, or the Hugging Face hub."""

from collections.abc import Sequence
from pathlib import Path

from pipeline.errors import ModelError, listed, one_line

CHECKPOINT_SUFFIXES = (".safetensors", ".pth", ".pt", ".bin")
# Describes the architecture of an open_clip model, named as on the hub. It lies beside the weights, so that DVC sees a
# change of either as a change of the model's origin.
CLIP_CONFIG = "open_clip_config.json"
TIMEOUT_SECONDS = 10.0


def find_checkpoint(origin: Path) -> Path | None:
    """Return the checkpoint that ``origin`` is or contains, or None for a folder without one (hub download)."""
    if origin.is_file():
        return origin
    if not origin.is_dir():
        raise ModelError(
            f"{origin}: no such file or folder; put the checkpoint there, or make an empty folder to have it "
            "downloaded from the hub (weights/README.md)"
        )
    checkpoints = [path for path in sorted(origin.iterdir()) if path.suffix in CHECKPOINT_SUFFIXES]
    if len(checkpoints) > 1:
        names = listed(path.name for path in checkpoints)
        raise ModelError(f"{origin}: holds {len(checkpoints)} checkpoints ({names}); name the file itself")
    return checkpoints[0] if checkpoints else None


def fetch_from_hub(repo: str, names: Sequence[str], model_label: str, origin: Path) -> Path:
    """Return the path of the first of several files that a hub repository has, from the cache or downloaded.

    A cached file is used without any request. Otherwise a single request goes first, because `hf_hub_download` retries
    an unreachable hub for 23 seconds per file and logs every attempt. The `ModelError` names ``model_label`` and the
    file to put into ``origin``.
    """
    from huggingface_hub import hf_hub_download, hf_hub_url, try_to_load_from_cache
    from huggingface_hub.errors import EntryNotFoundError, HfHubHTTPError, HFValidationError
    from huggingface_hub.file_download import get_hf_file_metadata

    # Connection errors are OSErrors in some HTTP libraries; in others they share a base class with HfHubHTTPError.
    network_errors: tuple[type[BaseException], ...]
    network_errors = (OSError, HFValidationError, *HfHubHTTPError.__bases__)
    for name in names:
        cached = try_to_load_from_cache(repo, name)
        if isinstance(cached, str):
            return Path(cached)
    reason = "the repository has none of " + ", ".join(names)
    for name in names:
        try:
            get_hf_file_metadata(hf_hub_url(repo, name), timeout=TIMEOUT_SECONDS)
            return Path(hf_hub_download(repo, name))
        except EntryNotFoundError:
            continue
        except network_errors as error:
            text = one_line(error)
            reason = "HF_HUB_OFFLINE is set" if "offline mode" in text else text[:120]
            break
    raise unavailable(model_label, reason, f"{names[0]} from https://huggingface.co/{repo}", names[0], origin)


def unavailable(model_label: str, reason: str, source: str, name: str, origin: Path) -> ModelError:
    """Return the error for missing weights: which, why, and which file to put where."""
    target = origin / name if origin.is_dir() else origin
    return ModelError(f"weights of {model_label} cannot be downloaded ({reason}): get {source} and put it at {target}")
