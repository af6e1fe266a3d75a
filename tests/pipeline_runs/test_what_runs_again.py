"""The table of docs/what-runs-again.md: each row's change is made, and the stages that run are those of the row."""

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
from repro_here import Graph
from small_project import ROOT, VIT_KWARGS, SmallProject, draw_domain, draw_image

# DVC in this process: its own warnings are its own affair
pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore::DeprecationWarning")]

Change = Callable[[SmallProject, pytest.MonkeyPatch], object]


def settings(section: str, **values: object) -> Change:
    return lambda project, _: project.change_params(**{section: values})


def entry(section: str, key: str, **values: object) -> Change:
    """Change keys of a domain, model or dataset."""
    return lambda project, _: project.change_params(
        **{section: {key: {**project.read_params()[section][key], **values}}}
    )


def edit(module: str, text: str) -> Change:
    """Append text to a module of the project's package."""

    def change(project: SmallProject, _: pytest.MonkeyPatch) -> None:
        file = project.folder / "pipeline" / module
        before = file.read_text()
        file.unlink()  # of a copy by links
        file.write_text(before + text)

    return change


def in_right(change: Callable[[Path], object]) -> Change:
    """Change the images of the target."""
    return lambda project, _: change(project.folder / "data/right")


def in_both(change: Callable[[Path], object]) -> Change:
    """Change the images of both domains."""
    return lambda project, _: [change(project.folder / "data" / name) for name in ("left", "right")]


def new_behaviour(project: SmallProject, monkeypatch: pytest.MonkeyPatch) -> None:
    """Raise the version of `embed`, as whoever changes its rows must."""
    from pipeline.stages import embed

    edit("stages/embed.py", "# another version\n")(project, monkeypatch)
    monkeypatch.setattr(embed, "embed", replace(embed.embed, version=99))


def domain_added(project: SmallProject, _: pytest.MonkeyPatch) -> None:
    """Describe a third domain, whose images are there for whoever has images."""
    described = project.read_params()["domains"]["right"]
    project.change_params(domains={"third": {**described, "images": "data/third"}})
    if (project.folder / "data/left").exists():
        draw_domain(project.folder / "data/third", tuple(WORDS), 3, seed=9)


def unlabelled_domain(project: SmallProject, monkeypatch: pytest.MonkeyPatch) -> None:
    """Name the classes and add a domain without a problem, so that its labels may be taken away."""
    entry("datasets", "toy", class_names=WORDS)(project, monkeypatch)
    domain_added(project, monkeypatch)


def other_suite(project: SmallProject, _: pytest.MonkeyPatch) -> None:
    """Use another suite, let `code` run in it, and come back."""
    (project.folder / "suites").mkdir()
    shutil.copy(project.folder / "suite.yaml", project.folder / "suites/toy.yaml")
    shutil.copy(ROOT / "suites/digits.yaml", project.folder / "suites")
    with contextlib.chdir(project.folder):
        use("digits")
        assert run_stage(["code"]) == 0
        use("toy")
        assert run_stage(["code"]) == 0


def other_weights(project: SmallProject, _: pytest.MonkeyPatch) -> None:
    """Put another checkpoint where the features' own was."""
    file = project.folder / "weights/clip/open_clip_model.safetensors"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.unlink(missing_ok=True)
    file.write_bytes(b"other numbers")


def other_weights_meant(project: SmallProject, monkeypatch: pytest.MonkeyPatch) -> None:
    """Change CLIP's preprocessing beside its weights, and say that it is meant."""
    monkeypatch.setenv("REFEREE_NEW_WEIGHTS", "1")
    config = project.folder / "weights/clip/open_clip_config.json"
    if config.exists():
        content = json.loads(config.read_text())
        content["preprocess_cfg"] = {"mean": [0.5, 0.5, 0.5], "std": [0.5, 0.5, 0.5]}
        config.unlink()
        config.write_text(json.dumps(content))


def no_weights(project: SmallProject, _: pytest.MonkeyPatch) -> None:
    """Take the weights away."""
    for name in ("vit", "clip"):
        if (project.folder / "weights" / name).exists():
            (project.folder / "weights" / name).rename(project.folder / f"{name} elsewhere")


def rename(old: str, new: str) -> Callable[[Path], object]:
    return lambda folder: (folder / old).rename(folder / new)


def mend(folder: Path) -> None:
    (folder / "bee/3.png").unlink()
    draw_image(folder / "bee/3.png", 78)


def add_class(folder: Path) -> None:
    """Add a class that sorts among the others."""
    draw_domain(folder, ("bat",), 6, seed=5)


PINNED = [["ant", "bee"], ["cat", "dog"]]
WORDS = {name: f"{name} animal" for name in ("ant", "bee", "cat", "dog")}

# what must be there, and have run, before a change
BEFORE: dict[str, Change] = {"`domains.DOMAIN.labels: none`, or without it again": unlabelled_domain}
CHANGES: dict[str, Change] = {
    "a comment, a docstring, formatting": edit("stages/embed.py", "# a comment\n"),
    "code that makes features, refactored": edit("encoders/preprocessing.py", "UNUSED = 1\n"),
    "code of the method": edit("method/fusion.py", "UNUSED = 1\n"),
    "what `embed` computes (its version is raised)": new_behaviour,
    "versions of libraries": lambda project, _: None,
    "an image added": in_right(lambda f: draw_image(f / "bee/new.png", 77)),
    "an image removed": in_right(lambda f: (f / "bee/3.png").unlink()),
    "an image renamed": in_right(rename("bee/3.png", "bee/3a.png")),
    "an image mended": in_right(mend),
    "a class added": in_both(add_class),
    "a class renamed": in_both(rename("cat", "cow")),
    "a domain added": domain_added,
    "`data.seeds`": settings("data", seeds=[0, 1, 2]),
    "`data.test_fraction`": settings("data", test_fraction=0.5),
    "`data.unreadable`, `data.max_pixels`": settings("data", max_pixels=1000),
    "`data.private`": settings("data", private=["right"]),
    "`datasets.DATASET.classes_per_task`": entry("datasets", "toy", classes_per_task=1),
    "`datasets.DATASET.class_order_seed`": entry("datasets", "toy", class_order_seed=1993),
    "`datasets.DATASET.tasks` (the order of today, pinned)": entry("datasets", "toy", tasks=PINNED),
    "`datasets.DATASET.class_names` (named for the first time)": entry("datasets", "toy", class_names=WORDS),
    "`domains.DOMAIN.labels: none`, or without it again": entry("domains", "third", labels="none"),
    "`domains.DOMAIN.templates`": entry("domains", "right", templates=["a drawing of a {}"]),
    "`domains.DOMAIN.views`": entry("domains", "right", views=["original", "zeros"]),
    "`views.wavelet`": settings("views", wavelet="db2"),
    "`views.noise`": settings("views", noise=0.1),
    "`models.MODEL.stored_as`": entry("models", "vit", stored_as="float32"),
    "`models.MODEL.precision`": entry("models", "vit", precision="bfloat16"),
    "`models.MODEL.kwargs`": entry("models", "vit", kwargs={**VIT_KWARGS, "num_heads": 3}),
    "weights replaced": other_weights,
    "weights replaced, `REFEREE_NEW_WEIGHTS=1`": other_weights_meant,
    "weights absent": no_weights,
    "`referee use OTHER`, and back": other_suite,
    "`rff.D`": settings("rff", D=80),
    "`rff.sigma`": settings("rff", sigma=1e-3),
    "`method.variant`": settings("method", variant="no_weighting"),
    "`method.options`": settings("method", options={"use_weights": False}),
    "`compare.methods`": settings("compare", methods=["source_only"]),
    "`sensitivity.D`": settings("sensitivity", D=[20]),
    "`select.sigma`": settings("select", sigma=[1e-5]),
    "`runtime`": settings("runtime", workers=1, batch_size=5),
}

PAGE = (ROOT / "docs/what-runs-again.md").read_text(encoding="utf-8")
LINES = [line.strip("| \n").split(" | ") for line in PAGE.splitlines() if line.startswith("| ")]
ROWS = {cells[0]: cells[1:] for cells in LINES if len(cells) == 3 and cells[0] != "change"}


def named_after(words):
    """Return the stages that the page names from these words to the end of the clause."""
    return set(re.findall(r"`(\w+)`", re.search(rf"{re.escape(words)}([^:.]*)", PAGE)[1]))


SWEEPS = named_after("**The sweeps** are")
METHOD = named_after("**The method** is") | SWEEPS
NOT_LISTED = named_after("Not listed:")
IF_CHANGED = re.compile(", and (.*) if .* changes?")
EDITED = ("params.yaml", "suite.yaml", "dvc.lock")
# one row of each kind in `make test`; all of them in `make test-long`
FEW = {
    "a comment, a docstring, formatting", "an image added", "a domain added", "`data.seeds`",
    "`datasets.DATASET.class_order_seed`", "`datasets.DATASET.tasks` (the order of today, pinned)",
    "`domains.DOMAIN.templates`", "`views.noise`", "weights replaced", "weights absent",
    "code of the method", "`rff.sigma`", "`method.variant`", "`compare.methods`", "`runtime`",
}  # fmt: skip


def expected(cell, of_first):
    """Return the stages that a cell names, without those that run only if outputs change."""
    if cell == "the same":
        return of_first
    if cell == "as if one was added":
        kind = "class" if of_first == "class" else "image"
        return expected(ROWS[f"{'a' if kind == 'class' else 'an'} {kind} added"][0], set())
    cell = re.sub(IF_CHANGED, "", cell)
    stages = set(re.findall(r"`([a-zD_]+)`", cell)) | (SWEEPS if "the sweeps" in cell else set())
    return stages | (METHOD if "the method" in cell else set())


def copy(finished, folder, *, images):
    """Copy the finished project, by links where nothing is written in place."""

    def link(source, target):
        (shutil.copy if source.endswith(EDITED) else os.link)(source, target)

    def skip(parent, names):
        if parent.endswith(".dvc"):
            return {"cache", "tmp"}
        if Path(parent) == finished:
            return {".referee"}
        mine = Path(parent).name in ("data", "weights") and not images
        return set(names) - {"README.md"} if mine else set()

    shutil.copytree(finished, folder, symlinks=True, copy_function=link, ignore=skip)
    return SmallProject(folder)


@pytest.fixture(scope="module")
def before(finished):
    return Graph(finished).state()


def run(change, finished, before, folder, monkeypatch, *, images):
    """Return the stages that a change runs, without those that the table leaves out."""
    project = copy(finished, folder, images=images or change in BEFORE)
    if change in BEFORE:
        BEFORE[change](project, monkeypatch)
        Graph(project.folder).repro(before)
        before = Graph(project.folder).state()
        if not images:
            shutil.rmtree(project.folder / "data")
    CHANGES[change](project, monkeypatch)
    return {stage for stage in Graph(project.folder).repro(before) if stage.split("@")[0] not in NOT_LISTED}


def names(ran):
    return {re.split("[@ ]", stage)[0] for stage in ran}


def test_every_change_of_the_table_is_made_and_no_other():
    assert ROWS
    assert set(ROWS) == set(CHANGES)


CASES = [
    pytest.param(change, images, marks=() if change in FEW else pytest.mark.long)
    for change, (_, without) in ROWS.items()
    for images in (True, False)
    if images or without != "–"
]


@pytest.mark.parametrize(("change", "images"), CASES)
def test_a_row(change, images, finished, before, tmp_path, monkeypatch):
    cells = ROWS[change]
    kind = "class" if change.startswith("a class") else set()
    with_images = expected(cells[0], kind)
    wanted = with_images if images else expected(cells[1], with_images)
    ran = run(change, finished, before, tmp_path / "project", monkeypatch, images=images)
    cell = cells[0] if images or cells[1] == "the same" else cells[1]
    may_run = set().union(*(expected(part, set()) for part in re.findall(IF_CHANGED, cell)))
    assert names(ran) - may_run == wanted - may_run, sorted(ran)
    failed = {stage for stage in ran if stage.endswith("failed")}
    assert bool(failed) == cell.startswith(("needs", "refused")), failed
    if "that domain" in cell or "its domain" in cell:
        of_domains = {s for s in ran if s.startswith(("manifest", "tasks", "embed", "prompts"))}
        other = "third" if "domain added" in change or change in BEFORE else "right"
        assert all(re.split("[@ -]", stage)[1] == other for stage in of_domains), of_domains
    if "that model" in cell:
        used = {stage.split("-")[-1] for stage in ran if stage.startswith("embed")}
        assert len(used) == 1, used
