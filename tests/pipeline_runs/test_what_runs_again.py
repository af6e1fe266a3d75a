"""Make each change in the table of docs/what-runs-again.md and compare the stages that run with the table."""

import contextlib
import json
import os
import re
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from pipeline.cli.use import use
from pipeline.stage import main as run_stage
from simulated_repro import Graph
from small_project import ROOT, VIT_KWARGS, SmallProject, draw_domain, draw_image

# DVC runs in this process; ignore its warnings
pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore::DeprecationWarning")]

Change = Callable[[SmallProject, pytest.MonkeyPatch], object]


def change_section(section: str, **values: object) -> Change:
    return lambda project, _: project.change_params(**{section: values})


def change_entry(section: str, key: str, **values: object) -> Change:
    """Change keys of a domain, model or dataset."""
    return lambda project, _: project.change_params(
        **{section: {key: {**project.read_params()[section][key], **values}}}
    )


def edit(module: str, text: str) -> Change:
    """Append text to a module of the project's package."""

    def change(project: SmallProject, _: pytest.MonkeyPatch) -> None:
        file = project.folder / "pipeline" / module
        before = file.read_text()
        file.unlink()  # a hard link to the finished project
        file.write_text(before + text)

    return change


def in_right(change: Callable[[Path], object]) -> Change:
    """Change the images of the target domain."""
    return lambda project, _: change(project.folder / "data/right")


def in_both(change: Callable[[Path], object]) -> Change:
    """Change the images of both domains."""
    return lambda project, _: [change(project.folder / "data" / name) for name in ("left", "right")]


def raise_version(project: SmallProject, monkeypatch: pytest.MonkeyPatch) -> None:
    """Raise the version of `embed`, which is required when its output changes."""
    from pipeline.stages import embed

    edit("stages/embed.py", "# another version\n")(project, monkeypatch)
    monkeypatch.setattr(embed, "embed", replace(embed.embed, version=99))


def add_domain(project: SmallProject, _: pytest.MonkeyPatch) -> None:
    """Add a third domain, with images if the project has images."""
    right = project.read_params()["domains"]["right"]
    project.change_params(domains={"third": {**right, "images": "data/third"}})
    if (project.folder / "data/left").exists():
        draw_domain(project.folder / "data/third", tuple(WORDS), 3, seed=9)


def prepare_unlabelled_domain(project: SmallProject, monkeypatch: pytest.MonkeyPatch) -> None:
    """Name the classes and add a domain that no problem uses, so that its labels may be removed."""
    change_entry("datasets", "toy", class_names=WORDS)(project, monkeypatch)
    add_domain(project, monkeypatch)


def switch_suites(project: SmallProject, _: pytest.MonkeyPatch) -> None:
    """Use another suite, run `code`, and switch back."""
    (project.folder / "suites").mkdir()
    shutil.copy(project.folder / "suite.yaml", project.folder / "suites/toy.yaml")
    shutil.copy(ROOT / "suites/digits.yaml", project.folder / "suites")
    with contextlib.chdir(project.folder):
        use("digits")
        assert run_stage(["code"]) == 0
        use("toy")
        assert run_stage(["code"]) == 0


def replace_weights(project: SmallProject, _: pytest.MonkeyPatch) -> None:
    """Replace the checkpoint that the features were computed with."""
    file = project.folder / "weights/clip/open_clip_model.safetensors"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.unlink(missing_ok=True)
    file.write_bytes(b"other numbers")


def replace_weights_on_purpose(project: SmallProject, monkeypatch: pytest.MonkeyPatch) -> None:
    """Change CLIP's preprocessing beside its weights, with REFEREE_NEW_WEIGHTS=1."""
    monkeypatch.setenv("REFEREE_NEW_WEIGHTS", "1")
    config = project.folder / "weights/clip/open_clip_config.json"
    if config.exists():
        content = json.loads(config.read_text())
        content["preprocess_cfg"] = {"mean": [0.5, 0.5, 0.5], "std": [0.5, 0.5, 0.5]}
        config.unlink()
        config.write_text(json.dumps(content))


def remove_weights(project: SmallProject, _: pytest.MonkeyPatch) -> None:
    """Move the weights away."""
    for name in ("vit", "clip"):
        if (project.folder / "weights" / name).exists():
            (project.folder / "weights" / name).rename(project.folder / f"{name} elsewhere")


def rename(old: str, new: str) -> Callable[[Path], object]:
    return lambda folder: (folder / old).rename(folder / new)


def redraw(folder: Path) -> None:
    (folder / "bee/3.png").unlink()
    draw_image(folder / "bee/3.png", 78)


def add_class(folder: Path) -> None:
    """Add a class that sorts among the others."""
    draw_domain(folder, ("bat",), 6, seed=5)


PINNED = [["ant", "bee"], ["cat", "dog"]]
WORDS = {name: f"{name} animal" for name in ("ant", "bee", "cat", "dog")}

# made, and run, before the change in question
PREPARATIONS: dict[str, Change] = {"`domains.DOMAIN.labels: none`, or without it again": prepare_unlabelled_domain}
CHANGES: dict[str, Change] = {
    "a comment, a docstring, formatting": edit("stages/embed.py", "# a comment\n"),
    "code that makes features, refactored": edit("encoders/preprocessing.py", "UNUSED = 1\n"),
    "code in `pipeline/method/`": edit("method/fusion.py", "UNUSED = 1\n"),
    "what `embed` computes (its version is raised)": raise_version,
    "versions of libraries": lambda project, _: None,
    "an image added": in_right(lambda f: draw_image(f / "bee/new.png", 77)),
    "an image removed": in_right(lambda f: (f / "bee/3.png").unlink()),
    "an image renamed": in_right(rename("bee/3.png", "bee/3a.png")),
    "an image mended": in_right(redraw),
    "a class added": in_both(add_class),
    "a class renamed": in_both(rename("cat", "cow")),
    "a domain added": add_domain,
    "`data.seeds`": change_section("data", seeds=[0, 1, 2]),
    "`data.test_fraction`": change_section("data", test_fraction=0.5),
    "`data.unreadable`, `data.max_pixels`": change_section("data", max_pixels=1000),
    "`data.private`": change_section("data", private=["right"]),
    "`datasets.DATASET.classes_per_task`": change_entry("datasets", "toy", classes_per_task=1),
    "`datasets.DATASET.class_order_seed`": change_entry("datasets", "toy", class_order_seed=1993),
    "`datasets.DATASET.tasks` (the order of today, pinned)": change_entry("datasets", "toy", tasks=PINNED),
    "`datasets.DATASET.class_names` (named for the first time)": change_entry("datasets", "toy", class_names=WORDS),
    "`domains.DOMAIN.labels: none`, or without it again": change_entry("domains", "third", labels="none"),
    "`domains.DOMAIN.templates`": change_entry("domains", "right", templates=["a drawing of a {}"]),
    "`domains.DOMAIN.views`": change_entry("domains", "right", views=["original", "zeros"]),
    "`views.wavelet`": change_section("views", wavelet="db2"),
    "`views.noise`": change_section("views", noise=0.1),
    "`models.MODEL.stored_as`": change_entry("models", "vit", stored_as="float32"),
    "`models.MODEL.precision`": change_entry("models", "vit", precision="bfloat16"),
    "`models.MODEL.kwargs`": change_entry("models", "vit", kwargs={**VIT_KWARGS, "num_heads": 3}),
    "weights replaced": replace_weights,
    "weights replaced, `REFEREE_NEW_WEIGHTS=1`": replace_weights_on_purpose,
    "weights absent": remove_weights,
    "`referee use OTHER`, and back": switch_suites,
    "`rff.D`": change_section("rff", D=80),
    "`rff.sigma`": change_section("rff", sigma=1e-3),
    "`method.variant`": change_section("method", variant="no_weighting"),
    "`method.options`": change_section("method", options={"use_weights": False}),
    "`compare.methods`": change_section("compare", methods=["source_only"]),
    "`sensitivity.D`": change_section("sensitivity", D=[20]),
    "`select.sigma`": change_section("select", sigma=[1e-5]),
    "`runtime`": change_section("runtime", workers=1, batch_size=5),
}

PAGE = (ROOT / "docs/what-runs-again.md").read_text(encoding="utf-8")
LINES = [line.strip("| \n").split(" | ") for line in PAGE.splitlines() if line.startswith("| ")]
ROWS = {cells[0]: cells[1:] for cells in LINES if len(cells) == 3 and cells[0] != "change"}


def stages_after(words):
    """Return the stages that the page names after these words, up to the end of the clause."""
    return set(re.findall(r"`(\w+)`", re.search(rf"{re.escape(words)}([^:.]*)", PAGE)[1]))


SWEEPS = stages_after("**The sweeps** are")
METHOD = stages_after("**The method's stages** are") | SWEEPS
NOT_LISTED = stages_after("Not listed:")
IF_CHANGED = re.compile(", and (.*) if .* changes?")
EDITED = ("params.yaml", "suite.yaml", "dvc.lock")
# rows for `make test`, one of each kind; `make test-long` runs all
SHORT_SELECTION = {
    "a comment, a docstring, formatting", "an image added", "an image renamed", "a class renamed", "a domain added",
    "`data.seeds`",
    "`datasets.DATASET.class_order_seed`", "`datasets.DATASET.tasks` (the order of today, pinned)",
    "`domains.DOMAIN.templates`", "`views.noise`", "weights replaced", "weights absent",
    "code in `pipeline/method/`", "`rff.sigma`", "`method.variant`", "`compare.methods`", "`runtime`",
}  # fmt: skip


def expected_stages(cell):
    """Return the stages that a cell names, without those that run only if outputs change."""
    cell = re.sub(IF_CHANGED, "", cell)
    stages = set(re.findall(r"`([a-zD_]+)`", cell)) | (SWEEPS if "the sweeps" in cell else set())
    return stages | (METHOD if "the method's stages" in cell else set())


def copy_project(finished, folder, *, images):
    """Copy the finished project, with hard links for files that are not edited in place."""

    def copy_or_link(source, target):
        (shutil.copy if source.endswith(EDITED) else os.link)(source, target)

    def skip(parent, names):
        if parent.endswith(".dvc"):
            return {"cache", "tmp"}
        if Path(parent) == finished:
            return {".referee"}
        is_unwanted = Path(parent).name in ("data", "weights") and not images
        return set(names) - {"README.md"} if is_unwanted else set()

    shutil.copytree(finished, folder, symlinks=True, copy_function=copy_or_link, ignore=skip)
    return SmallProject(folder)


@pytest.fixture(scope="module")
def finished_state(finished):
    return Graph(finished).state()


def run_change(change, finished, state, folder, monkeypatch, *, images):
    """Make a change; return the stages that run, without those that the table leaves out."""
    project = copy_project(finished, folder, images=images or change in PREPARATIONS)
    if change in PREPARATIONS:
        PREPARATIONS[change](project, monkeypatch)
        Graph(project.folder).repro(state)
        state = Graph(project.folder).state()
        if not images:
            shutil.rmtree(project.folder / "data")
    CHANGES[change](project, monkeypatch)
    return {stage for stage in Graph(project.folder).repro(state) if stage.split("@")[0] not in NOT_LISTED}


def test_all_changes_of_the_table_are_made_and_no_others():
    assert ROWS
    assert set(ROWS) == set(CHANGES)


CASES = [
    pytest.param(change, images, marks=() if change in SHORT_SELECTION else pytest.mark.long)
    for change, (_, without_images) in ROWS.items()
    for images in (True, False)
    if images or without_images != "–"
]


@pytest.mark.parametrize(("change", "images"), CASES)
def test_change_runs_the_stages_of_its_row(change, images, finished, finished_state, tmp_path, monkeypatch):
    cells = ROWS[change]
    cell = cells[0] if images or cells[1] == "the same" else cells[1]
    expected = expected_stages(cell)
    ran = run_change(change, finished, finished_state, tmp_path / "project", monkeypatch, images=images)
    optional = set().union(*(expected_stages(part) for part in re.findall(IF_CHANGED, cell)))
    assert {re.split("[@ ]", stage)[0] for stage in ran} - optional == expected - optional, sorted(ran)
    failed = {stage for stage in ran if stage.endswith("failed")}
    assert bool(failed) == cell.startswith(("needs", "refused")), failed
    if "that domain" in cell or "its domain" in cell:
        domain_stages = {stage for stage in ran if stage.startswith(("manifest", "tasks", "embed", "prompts"))}
        domain = "third" if "domain added" in change or change in PREPARATIONS else "right"
        assert all(re.split("[@ -]", stage)[1] == domain for stage in domain_stages), domain_stages
    if "that model" in cell:
        models = {stage.split("-")[-1] for stage in ran if stage.startswith("embed")}
        assert len(models) == 1, models
