"""Export an adapted classifier as one safetensors file that can be used without this package.

Tensors: omega (d + d', D) and beta (D,), the Fourier basis of vision and CLIP embeddings side by side; W (D, K) and b
(K,), the classifier of the K classes seen; text, the prompts of the classes in the CLIP branch's softmax. A model that
rejects adds its `method.rejection.Rejector` over all classes of the source (centre, directions, similarity_mean,
similarity_sd) and their prompts, all_text. The header has a single entry, `referee`, in JSON: safetensors does not
keep the order of several entries, and the same model must give the same bytes. It includes the example below, so that
the file explains how to use it.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from pipeline.write_aside import write_aside

SCHEMA = "referee-classifier/2"
HEADER = "referee"

EXAMPLE = '''\
import json, torch
from safetensors import safe_open
from torch.nn.functional import normalize

with safe_open("classifier.safetensors", "pt") as file:
    m = {name: file.get_tensor(name).double() for name in file.keys()}
    about = json.loads(file.metadata()["referee"])


def classify(views, clip):
    """Probabilities (n, K) of about["classes"], from embeddings of n images: (n, d) per view, CLIP's (n, d')."""
    g, c = normalize(torch.stack(views).double(), dim=2), normalize(clip.double(), dim=1)
    x = torch.cat([g, about["clip_in_kernel"] * c.expand(len(g), *c.shape)], dim=2)
    a = normalize(x, dim=2) @ m["omega"] / 2  # cos(2a + beta) - cos(beta) = -2 sin(a) sin(a + beta)
    z = -2 * about["feature_scale"] * a.sin() * (a + m["beta"]).sin()
    p = (about["logit_factor"] * (z @ m["W"] + m["b"])).softmax(2).mean(0)
    q = (about["clip_scale"] * c @ m["text"].T).softmax(1)[:, : p.shape[1]]
    sure, certain = p.amax(1, keepdim=True), q.amax(1, keepdim=True)
    alpha = {"max_probability": sure / (sure + certain), "klda": 1, "clip": 0}[about["fusion"]]
    return alpha * p + (1 - alpha) * q
'''


EXAMPLE_OF_REJECTION = '''

def unknown(views, clip):
    """Confidence (n,) that an image is of none of the classes; above 1/2 it is unknown."""
    g, c = normalize(views[0].double(), dim=1), normalize(clip.double(), dim=1)
    s, k = normalize(g - m["centre"], dim=1) @ m["directions"].T, c @ m["all_text"].T
    mean, sd = m["similarity_mean"], m["similarity_sd"]
    u = -((s - mean[0]) / sd[0]).amax(1) - ((k - mean[1]) / sd[1]).amax(1)
    return (u - about["threshold"]).sigmoid()
'''


def write_classifier(path: Path, tensors: Mapping[str, npt.NDArray[Any]], about: Mapping[str, Any]) -> None:
    """Write named tensors, with ``about`` and the example in the header."""
    from safetensors.numpy import save_file

    example = EXAMPLE + (EXAMPLE_OF_REJECTION if "threshold" in about else "")
    content = json.dumps({"schema": SCHEMA, **about, "example": example}, sort_keys=True, ensure_ascii=False)
    contiguous = {name: np.ascontiguousarray(values) for name, values in tensors.items()}
    with write_aside(path) as aside:
        save_file(contiguous, aside, metadata={HEADER: content})
