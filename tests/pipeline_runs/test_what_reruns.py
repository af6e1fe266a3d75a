"""Real `dvc repro` runs: a change reruns what it must and nothing else."""

import json

import pytest

from small_project import SmallProject, draw_image

pytestmark = pytest.mark.slow

EMBED = {f"embed@{domain}-{model}" for domain in ("left", "right") for model in ("vit", "clip")}
PROBE = {"probe@left", "probe@right"}
ADAPT = {f"{stage}@left-right" for stage in ("pseudo_label", "refine", "adapt", "evaluate")}
METHOD = {"basis@left", "source@left"} | ADAPT


@pytest.fixture(scope="module")
def project(tmp_path_factory):
    made = SmallProject(tmp_path_factory.mktemp("project")).create(dvc=True)
    ran = made.repro()
    assert {stage for stage in ran if stage.startswith("embed")} == EMBED
    return made


def embeds(ran):
    return {stage for stage in ran if stage.startswith("embed")}


def test_nothing_changed_nothing_runs(project):
    assert project.repro() == set()


def test_D_or_sigma_re_embeds_nothing(project):
    project.change_params(rff={"D": 80, "sigma": 1e-3})
    assert project.repro() == METHOD


def test_seeds_and_tasks_re_embed_nothing(project):
    project.change_params(data={"seeds": [0, 1, 2]})
    assert project.repro() == {"manifest@left", "manifest@right"} | PROBE | METHOD


def test_the_variant_reruns_the_source_and_below(project):
    project.change_params(method={"variant": "paper"})
    assert project.repro() == METHOD - {"basis@left"}
    project.change_params(method={"variant": "calibrated"})
    project.repro()


def test_how_the_work_is_done_reruns_nothing(project):
    project.change_params(runtime={"workers": 1, "batch_size": 5})
    assert project.repro() == set()


def test_templates_rerun_only_the_prompts_of_their_domain(project):
    params = project.read_params()
    params["domains"]["left"]["templates"] = ["a photo of a {}", "a drawing of a {}"]
    project.write_params(params)
    assert project.repro() == {"prompts@left", "probe@left"}  # the source's prompts adapt nothing


def test_a_view_setting_re_embeds_everything_but_keeps_the_views_it_does_not_touch(project):
    project.change_params(views={"noise": 0.1})
    done = project.run("dvc", "repro")
    assert {
        line.split("'")[1] for line in done.stdout.splitlines() if line.startswith("Running stage")
    } == EMBED | PROBE | METHOD
    logs = list((project.folder / ".referee" / "progress").iterdir())
    assert len(logs) == 2 * (3 + 1)  # per model: original, zeros, rand, and rand again


def test_the_clip_model_re_embeds_only_clip(project):
    config = project.folder / "weights" / "clip" / "open_clip_config.json"
    content = json.loads(config.read_text())
    content["preprocess_cfg"] = {"mean": [0.5, 0.5, 0.5], "std": [0.5, 0.5, 0.5]}
    config.write_text(json.dumps(content))
    ran = project.repro()
    assert embeds(ran) == {"embed@left-clip", "embed@right-clip"}
    assert ran - EMBED == {"model@clip", "prompts@left", "prompts@right"} | PROBE | ADAPT


def test_one_image_re_embeds_its_domain_and_computes_only_that_image(project):
    draw_image(project.folder / "data" / "right" / "bee" / "new.png", seed=77)
    done = project.run("dvc", "repro")
    ran = {
        line.split("'")[1] for line in done.stdout.splitlines() if line.startswith("Running stage")
    }
    assert ran == {"manifest@right", "embed@right-vit", "embed@right-clip", "probe@right"} | ADAPT
    told = [line for line in done.stdout.splitlines() if line.startswith("embed right")]
    assert [line.split("; ")[1].split(" (")[0] for line in told] == ["1 embedded now"] * 2


def test_code_reruns_the_stages_that_import_it(project):
    def edit(name):
        with (project.folder / "pipeline" / name).open("a") as file:
            file.write("# edited\n")

    edit("cli/main.py")  # no stage imports it
    assert project.repro() == {"code"}
    edit("stages/probe.py")
    assert project.repro() == {"code"} | PROBE
    edit("method/continual_metrics.py")
    assert not embeds(project.repro())


def test_metrics_are_there(project):
    shown = json.loads(project.run("dvc", "metrics", "show", "--json").stdout)
    values = next(iter(shown.values()))["data"]
    assert set(values) == {
        "results/probes/left.json",
        "results/probes/right.json",
        "results/bases/left.json",
        "results/metrics/left-right.json",
    }
    assert values["results/probes/left.json"]["data"]["images"] == 24
    assert 0 <= values["results/metrics/left-right.json"]["data"]["A_T"] <= 100
