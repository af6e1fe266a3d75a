"""The pictures of the report, where the images are: thumbnails of mistakes, and the views of a few images.

Images are no dependency of the report: a teammate who has none gets the same page with a word instead of pictures.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import numpy.typing as npt

from pipeline.encoders.image_decoding import decode
from pipeline.encoders.preprocessing import Preprocessing
from pipeline.errors import RefereeError
from pipeline.params import Domain, Params
from pipeline.report.page.pictures import Album, ProblemPictures, data_address
from pipeline.report.page.problem_results import ProblemResults
from pipeline.stages import places
from pipeline.store.embedding_store import open_embeddings

THUMBNAIL, VIEW = 128, 168  # pixels of the longer side
CROP = Preprocessing(  # where a model's own is not known: features that were imported
    height=224,
    width=224,
    crop_pct=0.875,
    resize_mode="shortest",
    interpolation="bicubic",
    mean=(0.5, 0.5, 0.5),
    std=(0.5, 0.5, 0.5),
)


def image_place(domain: Domain, path: str) -> Path | None:
    """Return where an image of the manifest is, or None. Images beside imported features may lie under images/."""
    place = Path(path)
    if domain.images.endswith(".npz"):
        beside = Path(domain.images).parent
        found = [beside / "images" / place, beside / place]
    else:
        found = [place]
    return next((file for file in found if file.is_file()), None)


def read_pictures(params: Params, results: ProblemResults, album: Album) -> ProblemPictures:
    """Return the pictures of a problem's images, put into the album; without any image, why."""
    domain = params.domains[results.target]
    found = {
        row["path"]: place
        for row in results.shown
        if (place := image_place(domain, row["path"])) is not None
    }
    if not found:
        return ProblemPictures(missing=_why(results.target, domain))
    mistakes: dict[str, str] = {}
    views: dict[str, Mapping[str, str]] = {}
    crop, said = _preprocessing(params, results.target)
    for row in results.shown:
        path = row["path"]
        if path not in found:
            continue
        try:
            image = decode(found[path], max_pixels=params.data.max_pixels, upright=crop.upright)
        except RefereeError:
            continue  # damaged since the manifest was made: the page does without it
        if row["role"] == "mistake":
            mistakes[path] = album.add(data_address(np.asarray(image), THUMBNAIL))
        else:
            made = _views(crop.crop(image), bytes.fromhex(row["sha256"]), params)
            views[path] = {
                view: album.add(data_address(pixels, VIEW)) for view, pixels in made.items()
            }
    return ProblemPictures(mistakes, views, _why(results.target, domain), said)


def _views(
    crop: npt.NDArray[np.uint8], digest: bytes, params: Params
) -> dict[str, npt.NDArray[np.uint8]]:
    """Return the three views of a crop (h, w, 3) and what was removed, at full contrast, as 8-bit pixels."""
    import torch

    from pipeline.method.frequency_views import VIEWS, ViewSettings, frequency_views, removed
    from pipeline.report.view_picture import contrast_gain

    settings = ViewSettings(**params.views.model_dump())
    image = torch.from_numpy(crop.astype(np.float32) / 255).permute(2, 0, 1)[None]
    views = frequency_views(image, VIEWS, settings, [digest])
    made = {view: views[view][0].permute(1, 2, 0).numpy() for view in VIEWS}
    gone = np.abs(removed(image, settings)[0].permute(1, 2, 0).numpy())
    made["removed"] = gone * contrast_gain(gone)
    return {
        view: (pixels.clip(0, 1) * 255).round().astype(np.uint8) for view, pixels in made.items()
    }


def _preprocessing(params: Params, domain: str) -> tuple[Preprocessing, str]:
    """Return how the vision model crops, as its store records it, and what to say of the views."""
    place = places.embeddings(domain, params.vision)
    how = f"{params.views.wavelet}, level {params.views.level}, noise {params.views.noise}"
    try:
        recorded = open_embeddings(place).provenance.get("preprocessing")
    except RefereeError:
        recorded = None
    if recorded:
        return Preprocessing(**recorded), f"As the vision model sees the image ({how})."
    size = f"{CROP.width}×{CROP.height}"
    return CROP, (
        f"A centre crop of {size} ({how}); the features were imported, so the crop they were made from is not known."
    )


def _why(name: str, domain: Domain) -> str:
    """Say why there are no pictures and how to get them."""
    looked = domain.images
    if looked.endswith(".npz"):
        looked = f"{Path(looked).parent.as_posix()}/images"
    return (
        f"No pictures: the images of {name} are not on this machine. Put them at {looked} and run "
        "dvc repro --force --single-item report."
    )
