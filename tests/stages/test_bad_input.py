"""Bad input at the stages: one line that names the thing, status 2, nothing half-written, nothing lost."""

import importlib
import json
import shutil

import numpy as np
import pytest

from small_project import SmallProject

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def prepared(tmp_path_factory):
    made = SmallProject(tmp_path_factory.mktemp("prepared")).create(per_class=3)
    made.stage("manifest", "left")
    return made


@pytest.fixture
def project(prepared, tmp_path):
    shutil.copytree(prepared.folder, tmp_path / "p")
    return SmallProject(tmp_path / "p")


@pytest.fixture
def refused(project, monkeypatch, capsys):
    """Run a stage that must fail; return its one line, after seeing that it wrote and left nothing."""

    def run(stage, *args):
        monkeypatch.chdir(project.folder)
        before = files(project)
        # in this process, where torch is imported once; one test below runs the real command line
        status = importlib.import_module(f"pipeline.stages.{stage}").main(list(args))
        said = capsys.readouterr()
        assert (status, said.out) == (2, "")
        (line,) = said.err.strip().splitlines()
        assert line.startswith("referee: error: ")
        assert files(project) == before
        return line

    return run


def files(project):
    return {
        path: path.read_bytes() for path in (project.folder / "cache").rglob("*") if path.is_file()
    }


def imported(project, file, **more):
    model = {
        "library": "imported",
        "name": "elsewhere",
        "origin": file,
        "views": ["original"],
        **more,
    }
    project.change_params(models={"vit": model})


def test_the_command_line_ends_with_status_2_and_one_line(project):
    done = project.stage("embed", "lift", "vit", ok=False)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "referee: error: domains: there is no 'lift'; did you mean 'left'?\n"


def test_an_unknown_domain_or_model(project, refused):
    assert "domains: there is no 'lift'; did you mean 'left'?" in refused("embed", "lift", "vit")
    assert "models: there is no 'vitt'; did you mean 'vit'?" in refused("embed", "left", "vitt")


def test_no_manifest_yet(project, refused):
    assert "cache/manifests/right/images.csv: no such file" in refused("embed", "right", "vit")


def test_a_manifest_that_was_cut(project, refused):
    file = project.folder / "cache/manifests/left/images.csv"
    file.write_text(file.read_text()[:-80])
    line = refused("embed", "left", "vit")
    assert "cache/manifests/left/images.csv" in line
    assert "dvc repro --force manifest@left" in line


def test_an_image_that_vanished(project, refused):
    (project.folder / "data/left/bee/1.png").unlink()
    assert "data/left/bee/1.png: no such file" in refused("embed", "left", "vit")


def test_an_image_that_changed_since_the_manifest(project, refused):
    shutil.copy(project.folder / "data/left/bee/2.png", project.folder / "data/left/bee/1.png")
    line = refused("embed", "left", "vit")
    assert "data/left/bee/1.png: changed since the manifest was made; run dvc repro again" in line


def test_after_a_failure_the_rest_is_not_done_again(project, refused):
    image = project.folder / "data/left/dog/2.png"
    content = image.read_bytes()
    image.write_bytes(b"")
    assert "data/left/dog/2.png: the file is empty" in refused("embed", "left", "vit")
    image.write_bytes(content)
    assert "12 images" in project.stage("embed", "left", "vit").stdout


def test_weights_that_are_missing_damaged_or_another_models(project, refused):
    weights = project.folder / "weights/vit/model.safetensors"
    weights.write_bytes(weights.read_bytes()[:1000])
    assert "weights/vit/model.safetensors: damaged or truncated" in refused("embed", "left", "vit")
    shutil.copy(project.folder / "weights/clip/open_clip_model.safetensors", weights)
    assert "is not a checkpoint of timm model 'vit_tiny_patch16_224'" in refused(
        "embed", "left", "vit"
    )
    shutil.rmtree(weights.parent)
    assert "weights/vit: no such file or folder" in refused("embed", "left", "vit")
    assert "weights/vit: no such file or folder" in refused("model", "vit")


def test_a_hub_out_of_reach_says_which_file_to_put_where(project):
    (project.folder / "weights/vit/model.safetensors").unlink()
    params = project.read_params()
    params["models"]["vit"] |= {"name": "vit_tiny_patch16_224.augreg_in21k_ft_in1k", "kwargs": {}}
    project.write_params(params)
    # a closed port on this machine is a hub out of reach, wherever the test runs
    done = project.stage(
        "embed",
        "left",
        "vit",
        ok=False,
        HF_ENDPOINT="http://127.0.0.1:9",
        HF_HOME=str(project.folder / "hf"),
    )
    assert done.returncode == 2, done.stderr
    (line,) = done.stderr.strip().splitlines()
    assert "timm/vit_tiny_patch16_224.augreg_in21k_ft_in1k" in line
    assert "weights/vit" in line
    assert "model.safetensors" in line


def test_an_unknown_model_or_argument(project, refused):
    project.change_params(
        models={
            "vit": {"library": "timm", "name": "vit_tinny_patch16_224", "origin": "weights/vit"}
        }
    )
    assert "vit_tiny_patch16_224" in refused("embed", "left", "vit")
    project.change_params(
        models={
            "vit": {
                "library": "timm",
                "name": "vit_tiny_patch16_224",
                "origin": "weights/vit",
                "kwargs": {"dept": 2},
            }
        }
    )
    assert "dept" in refused("embed", "left", "vit")


def test_a_level_too_deep_for_the_crop(project, refused):
    project.change_params(views={"level": 9})
    line = refused("embed", "left", "vit")
    assert "views.level" in line
    assert "9" in line


def test_an_unknown_preprocessing_field(project, refused):
    params = project.read_params()
    params["models"]["vit"]["preprocessing"] = {"meen": [0.5] * 3}
    project.write_params(params)
    assert "preprocessing.meen: no such field; did you mean 'mean'?" in refused(
        "embed", "left", "vit"
    )


def test_a_device_that_is_not_there(project, refused):
    project.change_params(runtime={"device": "cuda:7"})
    assert "device 'cuda:7'" in refused("embed", "left", "vit")


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        (np.ones((11, 4), np.float32), "has 11 rows where 12 are wanted"),
        (np.ones((12, 4), np.int64), "holds int64, not floating-point numbers"),
        (np.full((12, 4), np.nan, np.float32), "row 0 is not finite"),
        (
            np.full((12, 4), 1e9, np.float32),
            "the embedding is not finite (12 such rows); if float16 overflows, set",
        ),
        (np.array([{}] * 12, dtype=object), "holds Python objects, which could run code"),
    ],
)
def test_imported_embeddings_that_do_not_fit(project, refused, rows, message):
    (project.folder / "features").mkdir()
    np.save(project.folder / "features" / "left.npy", rows)
    imported(project, "features")
    assert message in refused("embed", "left", "vit")


def test_one_matrix_in_manifest_order_does_not_stand_for_two_domains(project, refused):
    np.save(project.folder / "x.npy", np.ones((12, 4), np.float32))
    imported(project, "x.npy")
    line = refused("embed", "left", "vit")
    assert "x.npy: has no paths, so it can stand for one domain only" in line
    assert "left.npy, right.npy" in line
    (project.folder / "features").mkdir()
    imported(project, "features")
    assert "features: holds neither left.npz nor left.npy" in refused("embed", "left", "vit")


STAGES_BY_NAME = [
    "basis",
    "source",
    "pseudo_label",
    "refine",
    "adapt",
    "evaluate",
    "probe",
    "prompts",
    "model",
]


@pytest.mark.parametrize("stage", STAGES_BY_NAME)
def test_an_unknown_name_at_any_stage(project, refused, stage):
    assert ": there is no 'nope'" in refused(stage, "nope")


def test_imported_embeddings_with_an_unknown_path(project, refused):
    paths = [f"left/{kind}/{i}.png" for kind in ("ant", "bee", "cat", "dog") for i in (0, 1, 3)]
    np.savez(project.folder / "x.npz", original=np.ones((12, 4), np.float32), paths=np.array(paths))
    imported(project, "x.npz")
    line = refused("embed", "left", "vit")
    assert "no row for 4 of the 12 images of left: data/left/ant/2.png" in line


def test_prompts_without_a_text_for_a_class(project, refused):
    project.stage("embed", "left", "clip")
    np.savez(
        project.folder / "t.npz",
        text=np.eye(3, 16, dtype=np.float32),
        class_names=np.array(["ant", "bee", "cat"]),
        logit_scale=np.float32(10),
    )
    project.change_params(
        models={"clip": {"library": "imported", "name": "elsewhere", "origin": "t.npz"}}
    )
    assert "t.npz: 0 text embeddings for class 'dog'; one is wanted" in refused("prompts", "left")


def test_a_stale_store_is_named_with_both_sides(project, refused):
    for stage in (("embed", "left", "vit"), ("embed", "left", "clip"), ("prompts", "left")):
        project.stage(*stage)
    (project.folder / "data/left/dog/2.png").unlink()
    project.stage("manifest", "left")
    line = refused("probe", "left")
    assert "vit.zarr: made with rows_digest = " in line
    assert "is wanted; restore it with `rm -r" in line


def test_a_clip_config_that_is_not_json(project, refused):
    (project.folder / "weights/clip/open_clip_config.json").write_text("{")
    assert "open_clip_config.json: the model config is not valid JSON" in refused(
        "embed", "left", "clip"
    )
    (project.folder / "weights/clip/open_clip_config.json").write_text(
        json.dumps({"model_cfg": {}})
    )
    assert "lacks embed_dim, vision_cfg, text_cfg" in refused("embed", "left", "clip")
