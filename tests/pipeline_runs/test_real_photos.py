"""`embed` on real photos with real ImageNet weights reproduces embeddings that were computed elsewhere."""

import tarfile

import numpy as np
import pytest

from pipeline.store.embedding_store import open_embeddings
from real_data import REAL, needs_real_data
from small_project import SmallProject, small_params

pytestmark = [pytest.mark.slow, pytest.mark.long, needs_real_data]

DOMAIN = "dslr"
PREPROCESSING = {  # of the code that computed the reference embeddings
    "mean": [0.5] * 3,
    "std": [0.5] * 3,
    "crop_pct": 0.875,
    "interpolation": "bicubic",
    "orientation": "stored",
    "rounding": "nearest",
}


@pytest.fixture(scope="module")
def project(tmp_path_factory):
    """Return a project with one domain of Office-Caltech10, an ImageNet network and the reference embeddings."""
    project = SmallProject(tmp_path_factory.mktemp("real"))
    data, name = REAL / "office_caltech10", "efficientnet_lite0"
    with tarfile.open(data / "images.tar") as archive:
        members = [member for member in archive if member.name.startswith(f"images/{DOMAIN}/")]
        archive.extraction_filter = getattr(tarfile, "data_filter", None)  # Python 3.11.4
        archive.extractall(project.folder, members)
    network = {"library": "timm", "name": name, "origin": str(REAL / "weights" / f"{name}.safetensors")}
    vision = {"library": "imported", "name": name, "origin": str(data / "vision.npz")}
    params = small_params()
    domains = {DOMAIN: params["domains"]["left"] | {"images": f"images/{DOMAIN}"}}
    models = {"net": network | {"preprocessing": PREPROCESSING}}
    models["reference"] = vision | {"arrays": {"rand": "rand_matched"}}
    params |= {"domains": domains, "models": params["models"] | models, "vision": "net"}
    project.write_params(params | {"sources": {}, "problems": {}, "swept": {}})
    project.run_in_process(("manifest", DOMAIN), *(("embed", DOMAIN, model) for model in models))
    return project


def cosines(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    a, b = a.astype(np.float64), b.astype(np.float64)
    return np.sum(a * b, axis=1) / (np.linalg.norm(a, axis=1) * np.linalg.norm(b, axis=1))


def open_stores(project):
    folder = project.folder / "cache" / "embeddings" / DOMAIN
    return open_embeddings(folder / "net.zarr"), open_embeddings(folder / "reference.zarr")


@pytest.mark.parametrize("view", ["original", "zeros"])
def test_embeddings_agree_with_the_reference(project, view):
    computed, reference = open_stores(project)
    assert computed.rows == 157
    agreement = cosines(computed.read(view), reference.read(view))
    assert agreement.min() > 0.98
    assert agreement.mean() > 0.995


def test_matched_noise_moves_embeddings_as_far_as_in_the_reference(project):
    """The noise is drawn differently, so compare the distances from the original."""
    computed, reference = open_stores(project)
    similarities = [cosines(store.read("rand"), store.read("original")) for store in (computed, reference)]
    assert abs(similarities[0].mean() - similarities[1].mean()) < 0.005
    assert cosines(computed.read("rand"), reference.read("rand")).mean() > 0.95
