"""A file from the Hugging Face hub: cached, or downloaded, or one line on what to put where."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from huggingface_hub import hf_hub_download, hf_hub_url, try_to_load_from_cache
from huggingface_hub.errors import EntryNotFoundError, HfHubHTTPError, HFValidationError
from huggingface_hub.file_download import get_hf_file_metadata

from pipeline.errors import ModelError

if TYPE_CHECKING:
    from collections.abc import Sequence

TIMEOUT_SECONDS = 10.0
# Connection errors are OSErrors in some of the HTTP libraries that huggingface_hub has used, and in
# others derive, like its own errors, from that library's base class.
NETWORK_ERRORS: tuple[type[BaseException], ...] = (
    OSError,
    HFValidationError,
    *HfHubHTTPError.__bases__,
)


def fetch(repo: str, names: Sequence[str], *, what: str, destination: Path | None) -> Path:
    """Return the first of the files ``names`` that ``repo`` has.

    ``what`` and ``destination`` serve the message where there is none.

    The local cache is enough, without asking the hub. `hf_hub_download` retries an unreachable hub
    for 23 seconds per file and logs every attempt, so a single request asks first.
    """
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
        except NETWORK_ERRORS as error:
            reason = _reason(error)
            break
    raise unavailable(
        what, reason, f"{names[0]} from https://huggingface.co/{repo}", names[0], destination
    )


def unavailable(
    what: str, reason: str, source: str, name: str, destination: Path | None
) -> ModelError:
    """One line: which weights, why not, which file to put where."""
    place = (
        f"put it at {destination / name if destination.is_dir() else destination}"
        if destination is not None
        else "name the file as the model's origin"
    )
    return ModelError(
        f"weights of {what} cannot be downloaded ({reason}): get {source} and {place}"
    )


def _reason(error: BaseException) -> str:
    text = " ".join(str(error).split())
    return "HF_HUB_OFFLINE is set" if "offline mode" in text else text[:120] or type(error).__name__
