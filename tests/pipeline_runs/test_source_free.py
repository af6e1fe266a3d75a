"""Check what stages read: in the graph, after destroying all other files, and with no other files present.

Adaptation reads no source row, no source label and no target label. More exactly, of all stages between the images and
the adapted classifier, none reads the target's report.json or anything of the source except its model and the basis.
Only `tasks` reads the target's labels.csv; it writes the split and the task of each image, which adaptation may know.
images.csv, whose paths contain class folders, is read only by `tasks`, `embed` and, for paths and digests of refined
views, `adapt`.
"""

import re
import shutil
from pathlib import Path

import pytest

from pipeline.stage import main
from simulated_repro import Graph
from small_project import PROBLEM, SmallProject, all_stages, small_params, tree_digest

# DVC runs in this process; ignore its warnings
pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore::DeprecationWarning")]

# all that the target's stages may read of the source: its model and the shared basis
FROM_SOURCE = {"cache/source/left.zarr", "cache/bases/left.json"}
OUTPUT = "cache/target/left-right.zarr"


@pytest.fixture(scope="module")
def graph(finished):
    """Return the small project's graph: stage arguments -> (dependencies, outputs)."""
    return Graph(finished).files()


def readers(stage, graph):
    """Return {file: stages that read it} for a stage and all that it depends on, up to the source model."""
    writers = {out: name for name, (_, outs) in graph.items() for out in outs}
    readers_by_file, visited, stack = {}, set(), [stage]
    while stack:
        name = stack.pop()
        if name in visited:
            continue
        visited.add(name)
        for dep in graph[name][0]:
            readers_by_file.setdefault(dep, set()).add(name)
            if dep in writers and dep not in FROM_SOURCE:
                stack.append(writers[dep])
    return readers_by_file


def test_graph_has_no_path_to_source_data_or_target_labels(graph):
    read = readers(f"adapt {PROBLEM}", graph)
    assert "cache/embeddings/right/vit.zarr" in read
    assert {path for path in read if re.search(r"/left(/|\.|$)", path)} == FROM_SOURCE
    assert not [path for path in read if "report.json" in path]
    assert read["cache/manifests/right/labels"] == {"tasks right"}
    assert {stage.split()[0] for stage in read["cache/manifests/right/images"]} == {"tasks", "embed", "adapt"}


def test_readers_would_find_a_leak(graph):
    assert "cache/manifests/right/labels" in readers("evaluate left-right", graph)
    assert "cache/embeddings/left/vit.zarr" in readers("source left", graph)


def test_adaptation_gives_the_same_bytes_without_source_data_labels_and_image_paths(project_copy):
    """Refinement is off; with refinement, test_refinement.py destroys all files except images.csv and the images."""
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
    project_copy.run_in_process(("adapt", PROBLEM))
    assert tree_digest(folder / OUTPUT) == before


def test_evaluation_requires_the_labels_of_the_target(project_copy, monkeypatch, refused):
    monkeypatch.chdir(project_copy.folder)
    labels = Path("cache/manifests/right/labels/labels.csv")
    labels.unlink()
    assert str(labels) in refused(main, "evaluate", PROBLEM)


# Stages that read more than their pushed dependencies, which are all a teammate can pull. `code` reads the package; the
# others read weights or images.
WITH_MORE = ("code", "embed", "prompts", "report")


@pytest.mark.parametrize("stage", [s for s in all_stages(small_params()) if s[0] not in WITH_MORE], ids=" ".join)
def test_stage_needs_only_its_declared_dependencies(finished, graph, tmp_path, stage):
    dependencies, outputs = graph[" ".join(stage)]
    for path in ("params.yaml", "suite.yaml", *dependencies):
        copy = shutil.copytree if (finished / path).is_dir() else shutil.copy
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        copy(finished / path, tmp_path / path)
    SmallProject(tmp_path).run_in_process(stage)
    for path in outputs:
        assert tree_digest(tmp_path / path) == tree_digest(finished / path)
