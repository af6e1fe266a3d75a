"""Real photos, real ImageNet weights: the embed stage reproduces embeddings that were computed elsewhere."""

import tarfile

import numpy as np
import pytest

from pipeline.store.embedding_store import open_embeddings
from real_data import REAL, needs_real_data
from small_project import SmallProject, small_params

pytestmark = [pytest.mark.slow, pytest.mark.long, needs_real_data]

DOMAIN = "dslr"
PREPROCESSING = {  # of the code that made the given embeddings
    "mean": [0.5] * 3,
    "std": [0.5] * 3,
    "crop_pct": 0.875,
    "interpolation": "bicubic",
    "orientation": "stored",
    "rounding": "nearest",
}


@pytest.fixture(scope="module")
def project(tmp_path_factory):
    """Return a project of one domain of Office-Caltech10: an ImageNet network, the given embeddings."""
    project = SmallProject(tmp_path_factory.mktemp("real"))
    given, name = REAL / "office_caltech10", "efficientnet_lite0"
    with tarfile.open(given / "images.tar") as archive:
        members = [member for member in archive if member.name.startswith(f"images/{DOMAIN}/")]
        archive.extraction_filter = getattr(tarfile, "data_filter", None)  # Python 3.11.4
        archive.extractall(project.folder, members)
    network = {"library": "timm", "name": name, "origin": str(REAL / "weights" / f"{name}.safetensors")}
    vision = {"library": "imported", "name": name, "origin": str(given / "vision.npz")}
    params = small_params()
    domains = {DOMAIN: params["domains"]["left"] | {"images": f"images/{DOMAIN}"}}
    models = {"net": network | {"preprocessing": PREPROCESSING}}
    models["given"] = vision | {"arrays": {"rand": "rand_matched"}}
    params |= {"domains": domains, "models": params["models"] | models, "vision": "net"}
    project.write_params(params | {"sources": {}, "problems": {}, "swept": {}})
    project.run_here(("manifest", DOMAIN), *(("embed", DOMAIN, model) for model in models))
    return project


def cosines(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    a, b = a.astype(np.float64), b.astype(np.float64)
    return np.sum(a * b, axis=1) / (np.linalg.norm(a, axis=1) * np.linalg.norm(b, axis=1))


def stores(project):
    folder = project.folder / "cache" / "embeddings" / DOMAIN
    return open_embeddings(folder / "net.zarr"), open_embeddings(folder / "given.zarr")


@pytest.mark.parametrize("view", ["original", "zeros"])
def test_ours_are_the_given_embeddings(project, view):
    ours, given = stores(project)
    assert ours.rows == 157
    agreement = cosines(ours.read(view), given.read(view))
    assert agreement.min() > 0.98
    assert agreement.mean() > 0.995


def test_matched_noise_moves_embeddings_as_far_as_the_given_one_does(project):
    """The noise itself is drawn differently, so the two are compared by their distance from the original."""
    ours, given = stores(project)
    moved = [cosines(store.read("rand"), store.read("original")) for store in (ours, given)]
    assert abs(moved[0].mean() - moved[1].mean()) < 0.005
    assert cosines(ours.read("rand"), given.read("rand")).mean() > 0.95
