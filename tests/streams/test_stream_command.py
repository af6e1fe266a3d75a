"""Test `referee stream` and other commands on a stream: changes to suite.yaml, predictions and errors."""

import pytest

from pipeline import open_cache
from pipeline.cli.main import main
from pipeline.config.params import load_params, newest_step
from pipeline.errors import ParamsError
from small_project import draw_image
from stream_project import CLASSES, answers, step_entry


def add_photos(project, name):
    """Write three photos to data/camera/NAME and return the relative path of the folder."""
    for number in range(3):
        draw_image(project.folder / f"data/camera/{name}/IMG_{number}.png", number)
    return f"data/camera/{name}"


def test_add_writes_a_domain_a_step_and_a_file_for_corrections(project, capsys):
    suite = project.folder / "suite.yaml"
    suite.write_text(f"# mine\n{suite.read_text()}".replace("steps: {}", "steps: {}  # arrivals"))
    assert main(["stream", "add", "camera", add_photos(project, "week 1")]) == 0
    assert "dvc repro step@camera-week_1" in capsys.readouterr().out
    assert main(["stream", "add", "camera", add_photos(project, "w2"), "--classes", "dog,ant"]) == 0
    text = suite.read_text()
    assert text.startswith("# mine\n")
    params = load_params()
    first, second = params.steps["camera-week_1"], params.steps["camera-w2"]
    assert (first.before, first.classes, first.source) == ("source/left", "all", "left")
    assert (second.before, second.classes) == ("streams/camera-week_1", ("dog", "ant"))
    assert params.domains["camera_w2"].labels == "none"
    assert params.domains["camera_w2"].views == ("original", "zeros", "rand")  # only the views that the method uses
    assert params.domains["camera_w2"].templates == params.domains["left"].templates
    assert (project.folder / "corrections/camera-w2.csv").read_text() == "path,class\n"


def test_add_writes_class_names_if_so_far_only_folders_had_them(project):
    project.change_params(datasets={"toy": {"classes_per_task": 2, "class_names": {}}})
    assert main(["stream", "add", "camera", add_photos(project, "week1")]) == 0
    assert project.read_params()["datasets"]["toy"]["class_names"] == {name: name for name in CLASSES}


def test_new_classes_create_a_dataset_that_later_steps_use(project):
    add_photos(project, "week1")
    add_photos(project, "week2")
    first = ("stream", "add", "camera", "data/camera/week1", "--classes", "ant")
    assert main([*first, "--new-classes", "red_fox"]) == 0
    assert main(["stream", "add", "camera", "data/camera/week2"]) == 0
    params = load_params()
    assert params.steps["camera-week1"].classes == ("ant", "red_fox")
    assert list(params.datasets["toy"].class_names) == list(CLASSES)  # so that no stage of the source runs again
    for week in ("week1", "week2"):
        dataset = params.domains[f"camera_{week}"].dataset
        assert dataset == "camera_week1"
    assert params.datasets["camera_week1"].class_names["red_fox"] == "red fox"


@pytest.mark.parametrize(
    ("command", "words"),
    [
        (["add", "camera", "data/nowhere"], "data/nowhere"),
        (["add", "camera", "data/empty"], "data/empty"),
        (["add", "shop", "data/left", "--source", "lfet"], "did you mean 'left'"),
        (["add", "camera", "data/left", "--classes", "ant,ant"], "listed twice"),
        (["add", "camera", "data/left", "--classes", "ant,wasp"], "--new-classes wasp"),
        (["add", "cam-era", "data/left"], "STREAM-STEP"),
        (["forget", "camera-week9"], "camera-week9"),
        (["forget", "camera-week1"], "dvc repro step@camera-week1"),
        (["add", "camera", "data/right", "--after", "week9"], "camera-week9"),
        (["add", "camera", "data/right", "--source", "right"], "start another stream"),
    ],
)
def test_a_bad_command_is_one_line_and_does_not_change_suite_yaml(weeks, refused, command, words):
    (weeks.folder / "data/empty").mkdir()
    before = (weeks.folder / "suite.yaml").read_bytes()
    assert words in refused(main, "stream", *command)
    assert (weeks.folder / "suite.yaml").read_bytes() == before


def test_forget_restores_suite_yaml_if_dvc_commit_fails(stepped, refused):
    before = (stepped.folder / "suite.yaml").read_bytes()
    line = refused(main, "stream", "forget", "camera-week1")  # the folder is no DVC repository
    assert "dvc commit past@camera-week1: " in line
    assert "suite.yaml is unchanged" in line
    assert (stepped.folder / "suite.yaml").read_bytes() == before


def test_the_newest_step_of_a_stream_is_the_last_unless_it_is_forked(weeks):
    params = weeks.read_params()
    params["past"] = {
        "old-b": {"source": "left", "before": "streams/old-a"},  # forgotten before its predecessor
        "old-a": {"source": "left", "before": "source/left"},
    }
    params["steps"]["old-c"] = step_entry("streams/old-b", "week1")
    weeks.write_params(params)
    suite = load_params()
    assert newest_step(suite, "camera") == "camera-week2"
    assert newest_step(suite, "camera", "week1") == newest_step(suite, "camera", "camera-week1") == "camera-week1"
    assert newest_step(suite, "old") == "old-c"
    with pytest.raises(ParamsError, match="did you mean 'camera'"):
        newest_step(suite, "camrea")
    params["steps"]["camera-night"] = step_entry("streams/camera-week1", "week2")
    weeks.write_params(params)
    with pytest.raises(ParamsError, match=r"forked.*--after"):
        newest_step(load_params(), "camera")


def test_predict_and_the_api_agree_with_the_table_of_the_step(stepped, capsys):
    table = answers(stepped, "camera-week1")
    command = "predict --stream camera --after week1 --format csv --top 1 data/week1/a0.png"
    assert main(command.split()) == 0
    predicted, expected = capsys.readouterr().out.splitlines()[-1].split(","), table["data/week1/a0.png"]
    assert predicted[2] == expected["class"]
    assert float(predicted[3]) == pytest.approx(float(expected["confidence"]), abs=1e-5)
    cache = open_cache(stepped.folder)
    assert cache.streams == {"camera": ("camera-week1", "camera-week2")}
    model = cache.stream_model("camera", after="week1")
    rows = cache.rows("week1", "vit")
    labels = model.predict(rows, cache.rows("week1", "clip")).label
    classes = {path: model.classes[label] for path, label in zip(rows.paths, labels, strict=True)}
    assert classes == {path: row["class"] for path, row in table.items()}


def test_export_works_only_after_a_step_that_ran_with_the_current_settings(stepped, capsys, refused):
    export = ("export", "--stream", "camera", "-o", "x.safetensors")
    assert main([*export, "--after", "week1"]) == 0
    assert "4 classes" in capsys.readouterr().out
    for command in (export, ("predict", "--stream", "camera", "photo.png")):
        assert "cache/streams/camera-week2.zarr" in refused(main, *command)
    stepped.change_params(method={"options": {"ridge": 0.9}})
    assert "ridge" in refused(main, *export, "--after", "week1")


def test_doctor_counts_images_without_labels(weeks, capsys):
    main(["doctor"])
    lines = capsys.readouterr().out.splitlines()
    assert any("domains.week1.images" in line and "12 images, no labels" in line for line in lines)
