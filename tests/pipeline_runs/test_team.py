"""A team over a project's life, with real git, real DVC and real clones, in the folders that git gives to a clone.

A extracts and pushes. B, who has neither images nor weights, changes what can be changed on features.
The queue is that of docs/how-to/sharing.md, with other values.
"""

import shutil

import pytest

from sharing_story import SharedRemote, give, in_clone, join, metrics, without_encoders
from small_project import ROOT, draw_image, stages_run

pytestmark = [pytest.mark.slow, pytest.mark.long]

COSTLY = ("generate", "image_list", "manifest", "model", "embed", "prompts")


@pytest.fixture(scope="module")
def remote(tmp_path_factory):
    folder = tmp_path_factory.mktemp("team")
    return SharedRemote("A shared folder", {"/mnt/team/referee": str(folder)})


@pytest.fixture(scope="module")
def owner(run_project, remote):
    (run_project.folder / "suites").mkdir()
    shutil.copy(run_project.folder / "suite.yaml", run_project.folder / "suites/toy.yaml")
    shutil.copy(ROOT / "suites/digits.yaml", run_project.folder / "suites")
    run_project.run("git", "add", "suites")
    give(run_project, remote)
    return run_project


@pytest.fixture
def mate(owner, remote, tmp_path):
    mate = join(owner, tmp_path / "mate", remote)
    assert not [name for name in in_clone(mate) if not name.endswith("README.md")]
    mate.apart = without_encoders(tmp_path)
    return mate


def repro(mate):
    """Run the one command of a teammate; no stage above `basis` but `code` and `tasks` may run."""
    done = mate.run("dvc", "repro", "--pull", "--allow-missing", **mate.apart)
    ran = stages_run(done.stdout)
    assert not {stage for stage in ran if stage.split("@")[0] in COSTLY}, ran
    return ran


def edit(project, module, text):
    with (project.folder / "pipeline" / module).open("a") as file:
        file.write(text)


def test_seeds_classes_the_package_and_the_suite_change_without_an_image(mate):
    mate.change_params(
        data={"seeds": [0, 1, 2]}, datasets={"toy": {"classes_per_task": 1, "class_names": {}}}
    )
    assert {"tasks@left", "tasks@right", "evaluate@left-right"} <= repro(mate)
    for module in ("datasets/manifest_files.py", "stages/embed.py", "encoders/preprocessing.py"):
        edit(mate, module, "# upgraded\nUPGRADED = True\n")
    edit(mate, "method/rows.py", "UPGRADED = True\n")
    assert "adapt@left-right" in repro(mate)
    before = metrics(mate)
    mate.run("git", "checkout", "--quiet", "suite.yaml")
    mate.run("referee", "use", "digits")
    mate.run("referee", "use", "toy")
    mate.change_params(datasets={"toy": {"classes_per_task": 1, "class_names": {}}})
    assert repro(mate) <= {"code", "report"}
    assert metrics(mate) == before


def test_queued_experiments_of_a_teammate_succeed(mate):
    repro(mate)
    mate.run("git", "commit", "--quiet", "-am", "mine", ok=False)
    grid = ("-S", "rff.D=20,30", "-S", "rff.sigma=1e-3")
    mate.run("dvc", "exp", "run", "--queue", "--pull", "--allow-missing", *grid)
    mate.run("dvc", "exp", "run", "--run-all", **mate.apart)
    states = mate.run("dvc", "queue", "status").stdout
    assert states.count("Success") == 2, states
    assert "Failed" not in states


def test_queued_experiments_of_the_owner_succeed(owner):
    grid = ("-S", "rff.D=20,30", "-S", "rff.sigma=1e-2")
    owner.run("dvc", "exp", "run", "--queue", "--allow-missing", *grid)
    owner.run("dvc", "exp", "run", "--run-all")
    states = owner.run("dvc", "queue", "status").stdout
    assert states.count("Success") == 2, states


def test_other_weights_are_refused_naming_both_sides_and_none_are_downloaded(mate):
    """An empty folder would be the hub's weights, a file those of somebody."""
    (mate.folder / "weights/vit").mkdir()
    for _ in range(2):
        done = mate.run("dvc", "repro", "--pull", "--allow-missing", ok=False, **mate.apart)
        assert done.returncode
        assert "weights/vit: " in done.stderr
        assert "model.safetensors with sha256" in done.stderr
        (mate.folder / "weights/vit/mine.pth").write_bytes(b"other numbers")
    assert "mine.pth with sha256" in done.stderr


def test_two_who_extract_two_domains_merge(owner, remote, tmp_path):
    """Each adds a domain; both extractions survive the merge, and nothing runs after it."""
    people = []
    for name in ("ben", "eva"):
        person = join(owner, tmp_path / name, remote)
        shutil.copytree(owner.folder / "weights", person.folder / "weights", dirs_exist_ok=True)
        params = person.read_params()
        params["domains"][name] = {**params["domains"]["left"], "images": f"data/{name}"}
        person.write_params(params)
        for number, animal in enumerate(("ant", "bee", "cat", "dog")):
            for i in range(3):
                draw_image(person.folder / f"data/{name}/{animal}/{i}.png", number * 10 + i)
        person.run(
            "dvc", "repro", "--pull", "--allow-missing", f"embed@{name}-vit", f"prompts@{name}"
        )
        person.run("dvc", "push")
        person.run("git", "commit", "--quiet", "-am", f"domain {name}")
        people.append(person)
    ben, eva = people
    ben.run("git", "fetch", "--quiet", str(eva.folder), "HEAD")
    ben.run("git", "merge", "FETCH_HEAD", ok=False)
    params = eva.read_params()
    params["domains"]["ben"] = {**params["domains"]["left"], "images": "data/ben"}
    ben.write_params(params)
    ben.run("referee", "merge-lock")
    ben.run("git", "commit", "--quiet", "-am", "both")
    targets = [f"{stage}@{name}" for name in ("ben", "eva") for stage in ("manifest", "prompts")]
    ran = stages_run(ben.run("dvc", "repro", "--pull", "--allow-missing", *targets, "embed").stdout)
    assert not {
        stage for stage in ran if stage.startswith(("manifest", "prompts@", "embed@e", "embed@b"))
    }, ran


def test_a_private_image_added_removed_and_added_again(project_copy):
    project = project_copy
    project.change_params(data={"private": ["right"]})
    target = "embed@right-vit"
    project.run("dvc", "repro", target)
    new = project.folder / "data/right/bee/new.png"
    for _ in range(2):
        draw_image(new, 77)
        project.run("dvc", "repro", target)
        new.unlink()
        project.run("dvc", "repro", target)
