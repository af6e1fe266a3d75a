"""A domain in shards gives the same manifest and embeddings as the same files in a folder."""

import json

import pytest

from pipeline.datasets.manifest_files import read_images, read_labels
from pipeline.datasets.task_files import read_classes, read_tasks
from pipeline.stage import main
from shards import files_in, write_parquet, write_tar
from small_project import SmallProject, draw_image, tree_digest

STORE = "cache/embeddings/left/vit.zarr"
EMBED = (("manifest", "left"), ("order", "left"), ("tasks", "left"), ("embed", "left", "vit"))


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Return a project with images in class folders and their features."""
    project = SmallProject(tmp_path_factory.mktemp("folder")).create(per_class=5)
    project.run_in_process(*EMBED)
    return project


def make_sharded(folder, target, form):
    """Return the same project with the images of `left` in three shards."""
    project = SmallProject(target)
    for name in ("weights", "data"):
        target.joinpath(name).symlink_to(folder.folder / name)
    params = folder.read_params()
    params["domains"]["left"]["images"] = "shards"
    params["datasets"]["toy"]["class_names"] = {n: n for n in ("ant", "bee", "cat", "dog")}
    project.write_params(params)
    files = list(files_in(folder.folder / "data/left").items())
    for number, part in enumerate((files[:8], files[8:9], files[9:])):
        if form == "tar":
            write_tar(target / f"shards/{number}.tar", dict(part))
        else:
            names = ("dog", "cat", "bee", "ant")
            label = [names.index(name.partition("/")[0]) for name, _ in part]
            images = [data for _, data in part]
            file = target / f"shards/{number}.parquet"
            write_parquet(file, images, label=label, names={"label": names}, rows_per_group=3)
    return project


@pytest.mark.parametrize("form", ["tar", "parquet"])
def test_shards_give_the_same_rows_and_bytes_as_a_folder(folder, tmp_path, form, capsys):
    project = make_sharded(folder, tmp_path, form)
    project.run_in_process(*EMBED)
    expected, manifest = (p.folder / "cache/manifests/left" for p in (folder, project))
    assert [row[1:] for row in read_images(manifest)] == [row[1:] for row in read_images(expected)]
    assert (read_labels(manifest)[0] == read_labels(expected)[0]).all()
    assert (read_tasks(manifest).test == read_tasks(expected).test).all()
    assert tree_digest(project.folder / STORE) == tree_digest(folder.folder / STORE)
    assert "20 embedded now" in capsys.readouterr().out

    draw_image(tmp_path / "new.png", 99)
    new = (tmp_path / "new.png").read_bytes()
    if form == "parquet":
        write_parquet(tmp_path / "shards/3.parquet", [new], label=[0], names={"label": ["ant"]})
    else:
        write_tar(tmp_path / "shards/3.tar", {"ant/new.png": new})
    project.run_in_process(*EMBED)
    assert "21 images" in (out := capsys.readouterr().out)
    assert "1 embedded now" in out


def test_task_column_decides_when_classes_arrive(folder, tmp_path):
    """The column overrides the alphabet and `classes_per_task`; `tasks` in suite.yaml overrides the column."""
    project, params = SmallProject(tmp_path), folder.read_params()
    members, tasks = {}, []
    for i, (name, data) in enumerate(files_in(folder.folder / "data/left").items()):
        label = name.partition("/")[0]
        tasks.append({"dog": 1, "ant": 2, "bee": 2, "cat": 3}[label])
        members[f"{i:03}.png"] = data
        members[f"{i:03}.json"] = json.dumps({"label": label, "task": tasks[-1]}).encode()
    images = write_tar(tmp_path / "x.tar", members)
    params["domains"]["left"]["images"] = images.name
    project.write_params(params)
    project.run_in_process(("manifest", "left"), ("order", "left"), ("tasks", "left"))
    manifest = tmp_path / "cache/manifests/left"
    expected = [("dog", 0), ("ant", 1), ("bee", 1), ("cat", 2)]
    assert [row[1:] for row in read_classes(manifest)] == expected
    assert read_tasks(manifest).task.tolist() == [task - 1 for task in tasks]  # in the order of the files

    params["datasets"]["toy"]["tasks"] = [["cat", "dog"], ["ant", "bee"]]
    project.write_params(params)
    project.run_in_process(("order", "left"), ("tasks", "left"))
    assert [row.class_name for row in read_classes(manifest)][:2] == ["cat", "dog"]


def test_damaged_image_in_a_shard_is_named_or_skipped(folder, tmp_path, monkeypatch, capsys):
    project = make_sharded(folder, tmp_path, "tar")
    write_tar(tmp_path / "shards/3.tar", {"ant/bad.png": b"no image"})
    monkeypatch.chdir(tmp_path)
    assert main(["manifest", "left"]) == 2
    assert "shards/3.tar/ant/bad.png: not a JPEG" in capsys.readouterr().err
    assert not (tmp_path / "cache").exists()
    project.change_params(data={"unreadable": "skip"})
    project.run_in_process(("manifest", "left"))
    assert "20 images, 4 classes; 1 unreadable" in capsys.readouterr().out


def test_private_domain_in_shards_is_embedded(folder, tmp_path):
    """Its rows are sorted by content, but shards are still read one after another."""
    project = make_sharded(folder, tmp_path, "parquet")
    project.change_params(data={"private": ["left"]})
    project.run_in_process(*EMBED)
    assert (tmp_path / STORE).is_dir()
