"""Adapting reads no source row, no source label and no target label: by the graph, and by destroying them.

What holds exactly: no stage from the images to the adapted classifier reads report.json of the target, or anything of
the source but its model and the basis. labels.csv of the target is read by `tasks` alone, which writes the split and
the task of every image, known while adapting. images.csv, whose paths name class folders, is read by `tasks`, `embed`
and, where views are refined, by `adapt` (for paths and digests of the files), and by no other stage on the way.
"""

import itertools
import re

import pytest
from ruamel.yaml import YAML

from small_project import PROBLEM, ROOT, small_params, tree_digest

# What the target's stages may read of the source: its model, and the basis that the two share.
FROM_SOURCE = {"cache/source/left.zarr", "cache/bases/left.json"}
ADAPT = f"adapt@{PROBLEM}"
OUTPUT = "cache/target/left-right.zarr"


def cases(body, params):
    """Return the keys of a stage of dvc.yaml and the values that they stand for."""
    if "matrix" in body:
        sections = [params[each.strip("${}")] for each in body["matrix"].values()]  # joined: []
        return {"-".join(keys): dict(zip(body["matrix"], keys, strict=True)) for keys in itertools.product(*sections)}
    each = body.get("foreach", [])
    return params[each.strip("${}")] if isinstance(each, str) else {"": {}}  # a list: of one suite


def expanded():
    """Return every stage of the small project's graph: name -> (deps, outs)."""
    params, stages = small_params(), {}
    graph = YAML(typ="safe", pure=True).load((ROOT / "dvc.yaml").read_text())["stages"]
    for name, body in graph.items():
        for key, item in cases(body, params).items():
            values = {"key": key, **{k: params[k] for k in ("vision", "language", "suite")}}
            values |= {f"item.{k}": v for k, v in item.items()}

            def filled(entries, values=values):
                names = (next(iter(e)) if isinstance(e, dict) else e for e in entries)
                return [re.sub(r"\$\{([^}]+)\}", lambda m: str(values[m[1]]), n) for n in names]

            do = body.get("do", body)
            outs = do.get("outs", []) + do.get("metrics", [])
            name = "metrics" if name == "evaluate@all" else name  # noqa: PLW2901  as its code is called
            stages[f"{name}@{key}" if key else name] = (filled(do.get("deps", [])), filled(outs))
    return stages


def readers(stage, stages):
    """Return {file: stages that read it} for the stage and all it depends on, but not what made the source model."""
    makers = {out: name for name, (_, outs) in stages.items() for out in outs}
    found, done, waiting = {}, set(), [stage]
    while waiting:
        name = waiting.pop()
        if name in done:
            continue
        done.add(name)
        for dep in stages[name][0]:
            found.setdefault(dep, set()).add(name)
            if dep in makers and dep not in FROM_SOURCE:
                waiting.append(makers[dep])
    return found


def test_the_graph_has_no_path_to_source_data_or_target_labels():
    read = readers(ADAPT, expanded())
    assert "cache/embeddings/right/vit.zarr" in read
    assert {path for path in read if re.search(r"/left(/|\.|$)", path)} == FROM_SOURCE
    assert not [path for path in read if "report.json" in path]
    assert read["cache/manifests/right/labels"] == {"tasks@right"}


def test_images_csv_is_read_by_tasks_embed_and_adapt_alone():
    read = readers(ADAPT, expanded())["cache/manifests/right/images"]
    assert {stage.split("@")[0] for stage in read} == {"tasks", "embed", "adapt"}


def test_the_walk_would_find_a_leak():
    assert "cache/manifests/right/labels" in readers("evaluate@left-right", expanded())
    assert "cache/embeddings/left/vit.zarr" in readers("source@left", expanded())


@pytest.mark.slow
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


@pytest.mark.slow
def test_without_its_labels_the_target_cannot_be_evaluated(project_copy):
    (project_copy.folder / "cache/manifests/right/labels/labels.csv").unlink()
    done = project_copy.stage("evaluate", "left-right", ok=False)
    assert done.returncode == 2
    assert "cache/manifests/right/labels/labels.csv" in done.stderr
