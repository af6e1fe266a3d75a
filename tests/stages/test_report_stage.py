"""The stage `report`: a page with or without images, all of it or none, one line for what is wrong."""

import csv
import json
import re
import shutil

import numpy as np
import pytest
from PIL import Image

from pipeline.stages import places, report
from report_content import problem
from small_project import SmallProject, small_params

TABLES = ("tasks", "forgetting", "classes", "confusion", "reliability", "weights", "shown", "map")


def write(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


def write_rows(path, rows):
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


def write_results(results):
    """Write what the other stages write about a problem."""
    write(places.metrics(results.name), json.dumps(results.metrics))
    for table in TABLES:
        write_rows(places.tables(results.name) / f"{table}.csv", getattr(results, table))
    write_rows(places.tables(results.name) / "accuracy_matrix.csv", results.matrix)
    compared = {
        method: {
            "title": told.title,
            "group": told.group,
            "source_samples": told.source_samples,
            "A_T": told.mean,
            "A_T_sd": told.sd,
            "A_T_per_seed": list(told.per_seed),
        }
        for method, told in results.methods.items()
    }
    write(places.comparison(results.name), json.dumps(compared))
    for swept, sweep in results.sweeps.items():
        rows = [{swept: value, "A_T": mean, "sd": sd} for value, (mean, sd) in sweep.items()]
        write_rows(places.sensitivity(results.name) / f"{swept}.csv", rows)


@pytest.fixture
def project(tmp_path, monkeypatch):
    """Return a project whose stages have run, without images; the plotting library left out."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
    monkeypatch.setattr(report, "drawing_library", lambda: "let vegaEmbed;")
    SmallProject(tmp_path).write_params(small_params())
    write_results(problem("left-right", ["ant", "bee", "cat", "dog"], 70, swept=True))
    return SmallProject(tmp_path)


def draw_images():
    for i in range(3):
        pixels = np.random.default_rng(i).integers(0, 256, (40, 50, 3), dtype=np.uint8)
        path = places.Path(f"data/{i}.png")
        path.parent.mkdir(exist_ok=True)
        Image.fromarray(pixels).save(path)


def album():
    found = re.search(r'id="album">(.*?)</script>', places.report().read_text(encoding="utf-8"))
    return json.loads(found[1])


def test_the_page_and_the_same_bytes_again(project, capsys):
    assert report.main([]) == 0
    assert capsys.readouterr().out.startswith("report: results/report.html, ")
    first = places.report().read_bytes()
    assert report.main([]) == 0
    assert places.report().read_bytes() == first
    page = first.decode()
    assert "left → right" in page
    assert "82.0 ± 0.5 %" in page  # A_T
    assert "sigma: 0.0001" in page  # the params
    assert "batch_size" not in page  # but not how the work was done
    assert str(project.folder) not in page


def test_without_images_it_says_so_and_lists_the_mistakes(project):
    assert report.main([]) == 0
    assert album() == {}
    page = places.report().read_text(encoding="utf-8")
    assert (
        "No pictures: the images of right are not on this machine. Put them at data/right" in page
    )
    assert ">data/1.png</th>" in page


def test_with_images_there_are_thumbnails_and_views(project):
    draw_images()
    assert report.main([]) == 0
    pictures = album()
    assert (
        len(pictures) == 2 + 4
    )  # two mistakes; original, zeros, rand and what was removed of one image
    assert all(address.startswith("data:image/") for address in pictures.values())
    page = places.report().read_text(encoding="utf-8")
    assert "No pictures" not in page
    assert page.count("data-picture=") == 6


def test_an_image_that_was_damaged_since_is_left_out(project):
    draw_images()
    places.Path("data/1.png").write_bytes(b"no image")
    assert report.main([]) == 0
    assert len(album()) == 5
    assert "no image</span>" in places.report().read_text(encoding="utf-8")


@pytest.mark.parametrize("folder", ["images/", ""])
def test_images_of_imported_features_may_lie_beside_them(project, folder):
    params = project.read_params()
    params["domains"]["right"]["images"] = "data/features/all.npz"
    project.write_params(params)
    draw_images()
    place = project.folder / "data/features" / folder
    place.mkdir(parents=True)
    (place / "data").mkdir()
    for i in range(3):
        shutil.move(project.folder / f"data/{i}.png", place / "data")
    assert report.main([]) == 0
    assert len(album()) == 6


def test_a_table_that_is_missing_leaves_the_former_page(project, capsys):
    assert report.main([]) == 0
    before = places.report().read_bytes()
    (places.tables("left-right") / "map.csv").unlink()
    capsys.readouterr()
    assert report.main([]) == 2
    assert capsys.readouterr().err == (
        "referee: error: results/tables/left-right/map.csv: no such file; run dvc repro evaluate@left-right, "
        "or dvc pull --allow-missing\n"
    )
    assert places.report().read_bytes() == before
    assert [path.name for path in places.RESULTS.iterdir() if path.name.startswith(".")] == []


def test_no_problems_no_charts(project):
    params = project.read_params()
    params |= {"problems": {}, "sources": {}, "swept": {}}
    project.write_params(params)
    assert report.main([]) == 0
    assert "has no problems" in places.report().read_text(encoding="utf-8")


def test_a_problem_that_was_not_swept(project):
    params = project.read_params()
    params["swept"] = {}
    project.write_params(params)
    assert report.main([]) == 0
    page = places.report().read_text(encoding="utf-8")
    assert "add <code>left-right</code> to <code>swept</code>" in page


def test_the_revision_and_what_is_not_committed(project):
    assert report.revision() == "not known: no git repository with a commit here"
    project.run("git", "init", "--quiet")
    project.run("git", "config", "user.email", "owner@example.invalid")
    project.run("git", "config", "user.name", "Owner")
    project.run("git", "add", "params.yaml")
    project.run("git", "commit", "--quiet", "-m", "params")
    head = project.run("git", "rev-parse", "HEAD").stdout.strip()
    assert report.revision() == head
    project.change_params(rff={"D": 77})
    (project.folder / "dvc.yaml").write_text("stages: {}\n")
    assert report.revision() == f"{head}, with uncommitted changes in dvc.yaml, params.yaml"


def test_the_hashes_of_the_stores(project):
    assert report.stores() == []
    write(
        report.LOCK,
        "schema: '2.0'\nstages:\n  embed@a:\n    outs:\n    - {path: cache/e.zarr, md5: 12.dir}\n",
    )
    assert [one.digest for one in report.stores()] == ["12.dir"]
    for broken in ("stages: [", "- 1", "stages: 3"):
        write(report.LOCK, broken)
        assert report.stores() == []
