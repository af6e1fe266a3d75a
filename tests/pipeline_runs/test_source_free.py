"""What stages read: by the graph, by destroying everything else, and where nothing else is.

Adapting reads no source row, no source label and no target label. What holds exactly: no stage from the images to the
adapted classifier reads report.json of the target, or anything of the source but its model and the basis. labels.csv of
the target is read by `tasks` alone, which writes the split and the task of every image, known while adapting.
images.csv, whose paths name class folders, is read by `tasks`, `embed` and, where views are refined, by `adapt` (for
paths and digests of the files), and by no other stage on the way.
"""

import re
import shutil
from pathlib import Path

import pytest

from pipeline.stage import main
from repro_here import Graph
from small_project import PROBLEM, SmallProject, small_params, stages_of, tree_digest

# DVC in this process: its own warnings are its own affair
pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore::DeprecationWarning")]

# What the target's stages may read of the source: its model, and the basis that the two share.
FROM_SOURCE = {"cache/source/left.zarr", "cache/bases/left.json"}
OUTPUT = "cache/target/left-right.zarr"


@pytest.fixture(scope="module")
def graph(finished):
    """Return every stage of the small project's graph: arguments -> (deps, outs)."""
    return Graph(finished).files()


def readers(stage, graph):
    """Return {file: stages that read it} for the stage and all it depends on, but not what made the source model."""
    makers = {out: name for name, (_, outs) in graph.items() for out in outs}
    found, done, waiting = {}, set(), [stage]
    while waiting:
        name = waiting.pop()
        if name in done:
            continue
        done.add(name)
        for dep in graph[name][0]:
            found.setdefault(dep, set()).add(name)
            if dep in makers and dep not in FROM_SOURCE:
                waiting.append(makers[dep])
    return found


def test_the_graph_has_no_path_to_source_data_or_target_labels(graph):
    read = readers(f"adapt {PROBLEM}", graph)
    assert "cache/embeddings/right/vit.zarr" in read
    assert {path for path in read if re.search(r"/left(/|\.|$)", path)} == FROM_SOURCE
    assert not [path for path in read if "report.json" in path]
    assert read["cache/manifests/right/labels"] == {"tasks right"}
    assert {stage.split()[0] for stage in read["cache/manifests/right/images"]} == {"tasks", "embed", "adapt"}


def test_the_walk_would_find_a_leak(graph):
    assert "cache/manifests/right/labels" in readers("evaluate left-right", graph)
    assert "cache/embeddings/left/vit.zarr" in readers("source left", graph)


def test_with_source_data_labels_and_image_paths_destroyed_adaptation_gives_the_same_bytes(project_copy):
    """Refinement is off here; test_refinement.py destroys all but images.csv and the images with it on."""
    folder = project_copy.folder
    before = tree_digest(folder / OUTPUT)
    manifest = folder / "cache/manifests/right"
    destroyed = [*folder.glob("cache/embeddings/left/**/*"), *folder.glob("cache/manifests/left/**/*")]
    destroyed += [*manifest.glob("labels/*"), *manifest.glob("images/*")]
    destroyed += [manifest / "report.json", *folder.glob("data/**/*.png")]
    for file in filter(lambda path: path.is_file(), destroyed):
        file.unlink()  # may be a link into DVC's cache
        file.write_bytes(b"destroyed")
    (folder / OUTPUT).rename(folder / f"{OUTPUT}.before")
    project_copy.run_here(("adapt", PROBLEM))
    assert tree_digest(folder / OUTPUT) == before


def test_without_its_labels_the_target_cannot_be_evaluated(project_copy, monkeypatch, refused):
    monkeypatch.chdir(project_copy.folder)
    labels = Path("cache/manifests/right/labels/labels.csv")
    labels.unlink()
    assert str(labels) in refused(main, "evaluate", PROBLEM)


# A teammate who pulls has no more than what dvc.yaml says. `code` reads the package; the others also read weights or
# images, which are never pushed.
WITH_MORE = ("code", "embed", "prompts", "report")


@pytest.mark.parametrize("stage", [s for s in stages_of(small_params()) if s[0] not in WITH_MORE], ids=" ".join)
def test_a_stage_needs_its_declared_dependencies_alone(finished, graph, tmp_path, stage):
    dependencies, outputs = graph[" ".join(stage)]
    for path in ("params.yaml", "suite.yaml", *dependencies):
        copy = shutil.copytree if (finished / path).is_dir() else shutil.copy
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        copy(finished / path, tmp_path / path)
    SmallProject(tmp_path).run_here(stage)
    for path in outputs:
        assert tree_digest(tmp_path / path) == tree_digest(finished / path)
