"""Record the outputs of stages that have a version, on a project that is the same on every machine.

``python tests/stages/record_golden.py`` writes tests/stages/golden: digests of the manifest's files, the arrays of
`embed` and `prompts`, and the versions of the four stages. It refuses to record changed outputs under the same version.
"""

import hashlib
import json
import sys
import tempfile
from pathlib import Path

import numpy as np
import numpy.typing as npt
from PIL import Image

sys.path[:0] = [str(Path(__file__).parents[1]), str(Path(__file__).parents[2])]

from pipeline.stage import find_stage  # noqa: E402
from pipeline.store.embedding_store import open_embeddings  # noqa: E402
from pipeline.store.prompt_store import open_prompts  # noqa: E402
from small_project import SmallProject, feature_stages, small_params, write_tiny_weights  # noqa: E402

GOLDEN = Path(__file__).parent / "golden"
STAGES = ("manifest", "tasks", "embed", "prompts")
TASKS = ("tasks.csv", "classes.csv")
ROUNDING = 0.01  # relative tolerance per row, because processors and versions of torch round differently
REMEDY = "python tests/stages/record_golden.py"

Outputs = dict[str, dict[str, npt.NDArray[np.generic]]]  # stage -> name -> array


def make_outputs(folder: Path) -> Outputs:
    """Run the four stages on six images, stored as BMP because uncompressed files have the same bytes everywhere."""
    project = SmallProject(folder)
    write_tiny_weights(folder / "weights")
    rng = np.random.default_rng(0)
    for name in ("ant/0", "ant/1", "ant/2", "bee/0", "bee/1", "bee/2"):
        file = folder / f"data/left/{name}.bmp"
        file.parent.mkdir(parents=True, exist_ok=True)
        blocks = rng.integers(0, 256, (5, 4, 3), dtype=np.uint8)
        Image.fromarray(blocks.repeat(5, axis=0).repeat(5, axis=1)).save(file)
    params = small_params() | {"problems": {}, "sources": {}, "swept": {}}
    project.write_params(params | {"domains": {"left": params["domains"]["left"]}})
    project.run_in_process(*feature_stages("left"))
    files = sorted(file for file in (folder / "cache/manifests/left").rglob("*") if file.is_file())
    stores = {model: open_embeddings(folder / f"cache/embeddings/left/{model}.zarr") for model in ("vit", "clip")}
    texts = open_prompts(folder / "cache/prompts/left.zarr")
    return {
        **{
            stage: {
                file.name: np.array(hashlib.sha256(file.read_bytes()).hexdigest())
                for file in files
                if file.name.startswith(TASKS) == (stage == "tasks")
            }
            for stage in ("manifest", "tasks")
        },
        "embed": {f"{m}-{view}": s.read(view) for m, s in stores.items() for view in s.views},
        "prompts": {"text": texts.text, "logit_scale": np.array([[texts.logit_scale]])},
    }


def differences(outputs: dict[str, npt.NDArray[np.generic]], recorded: dict[str, npt.NDArray[np.generic]]) -> list[str]:
    """Return the names of outputs that differ; floating-point arrays may differ by rounding."""
    names = sorted({*outputs, *recorded})
    return [n for n in names if n not in outputs or n not in recorded or not _alike(outputs[n], recorded[n])]


def _alike(left: npt.NDArray[np.generic], right: npt.NDArray[np.generic]) -> bool:
    if left.dtype != right.dtype or left.dtype.kind != "f" or left.shape != right.shape:
        return left.dtype == right.dtype and np.array_equal(left, right)
    a, b = (np.atleast_2d(x).astype(np.float64) for x in (left, right))
    return bool((np.linalg.norm(a - b, axis=1) < ROUNDING * np.linalg.norm(b, axis=1)).all())


def recorded_versions() -> dict[str, int]:
    """Return the version of each stage for which outputs are recorded."""
    versions: dict[str, int] = json.loads((GOLDEN / "versions.json").read_text())
    return versions


def read_recorded(stage: str) -> dict[str, npt.NDArray[np.generic]]:
    """Return the recorded outputs of a stage."""
    with np.load(GOLDEN / f"{stage}.npz") as arrays:
        return dict(arrays)


def explain(stage: str, outputs: dict[str, npt.NDArray[np.generic]]) -> str:
    """Return a message if a stage's outputs or version differ from the recorded ones, otherwise an empty string."""
    version, recorded = find_stage(stage).version, recorded_versions()[stage]
    changed = ", ".join(differences(outputs, read_recorded(stage)))
    file = f"pipeline/stages/{stage}.py"
    if stage == "embed":
        file = "pipeline/extraction/embedding_settings.py (ROWS_VERSION)"
    if version != recorded:
        return f"{file}: version {version}, but the recorded outputs are of version {recorded}; run {REMEDY}"
    if changed:
        return (
            f"outputs of `{stage}` changed ({changed}), but caches of version {version} would still be used; "
            f"if the change is intended, raise the version in {file} and run {REMEDY}"
        )
    return ""


def record() -> None:
    """Write the current outputs, unless they changed but the version did not."""
    with tempfile.TemporaryDirectory() as folder:
        outputs = make_outputs(Path(folder))
    versions = {stage: find_stage(stage).version for stage in STAGES}
    for stage in STAGES:
        if (GOLDEN / "versions.json").exists() and recorded_versions().get(stage) == versions[stage]:
            if message := explain(stage, outputs[stage]):
                sys.exit(message)
        else:
            np.savez_compressed(GOLDEN / f"{stage}.npz", **outputs[stage])
    (GOLDEN / "versions.json").write_text(json.dumps(versions, indent=1) + "\n")


if __name__ == "__main__":
    record()
