"""A team of three shares a project with real git, DVC, clones and a shared folder.

Ada has images and weights and extracts features. Ben has neither. Eva adds her own domain. The tests depend on each
other's results and run in order. The queue is that of docs/how-to/sharing.md with other values.
"""

import shutil
from types import SimpleNamespace

import pytest

from pipeline.stage import find_stage
from sharing_story import PULL, cloned_files, hide_encoders, join, publish, shared_folder
from small_project import SmallProject, all_stages, draw_domain, draw_image, feature_stages, stages_run

pytestmark = [pytest.mark.slow, pytest.mark.long]

EXTRACTION = ("generate", "manifest", "model", "embed", "prompts")


@pytest.fixture(scope="module")
def team(run_project, tmp_path_factory):
    """Let Ada run and share the project through a bare repository, and Ben and Eva clone it."""
    folder = tmp_path_factory.mktemp("team")
    remote = shared_folder(folder / "remote")
    ada = run_project
    publish(ada, remote)
    ada.run("git", "clone", "--quiet", "--bare", str(ada.folder), str(folder / "git"))
    ada.run("git", "remote", "add", "origin", str(folder / "git"))
    origin = SmallProject(folder / "git")
    ben, eva = (join(origin, folder / name, remote) for name in ("ben", "eva"))
    assert not [name for name in cloned_files(ben) if not name.endswith("README.md")]
    shutil.copytree(ada.folder / "weights", eva.folder / "weights", dirs_exist_ok=True)
    return SimpleNamespace(ada=ada, ben=ben, eva=eva, hidden=hide_encoders(folder))


def run_as_ben(team):
    """Run Ben's command without images; return the stages that ran, none of which may extract features."""
    ran = stages_run(team.ben.run(*PULL, **team.hidden).stdout)
    assert not {stage for stage in ran if stage.split("@")[0] in EXTRACTION}, ran
    return ran


def push(person, message):
    """Commit and push everything."""
    person.run("dvc", "push", "--quiet")
    person.commit(message)
    person.run("git", "push", "--quiet", "origin", "HEAD")


def pull(person):
    """Pull git and DVC, as docs/how-to/sharing.md says, so that nothing runs on old outputs."""
    person.run("git", "pull", "--quiet", "--no-rebase", "origin", "HEAD")
    person.run("dvc", "pull", "--quiet", "--allow-missing")


def describe_domain(person, name):
    left = person.read_params()["domains"]["left"]
    person.change_params(domains={name: {**left, "images": f"data/{name}"}})


def extract_domain(person, name):
    """Add a domain with its images and extract its features."""
    describe_domain(person, name)
    draw_domain(person.folder / "data" / name, ("ant", "bee", "cat", "dog"), 6, seed=2)
    person.run(*PULL, *domain_stages(feature_stages(name)))


def domain_stages(stages):
    """Return the stages that run per domain, as `dvc repro` takes them."""
    return [f"{name}@{'-'.join(keys)}" for name, *keys in stages if "domains" in find_stage(name).per]


def test_two_extractions_survive_a_merge_and_nothing_runs_afterwards(team):
    ada, eva = team.ada, team.eva
    pull(eva)
    extract_domain(eva, "eva")
    push(eva, "domain eva")
    extract_domain(ada, "ada")
    ada.run("dvc", "push", "--quiet")
    ada.commit("domain ada")
    ada.run("git", "pull", "--quiet", "--no-rebase", "origin", "HEAD", ok=False)
    ada.run("git", "checkout", "--theirs", "suite.yaml")
    describe_domain(ada, "ada")
    ada.run("referee", "merge-lock")
    done = ada.run(*PULL, "embed", "prompts", "tasks")
    assert stages_run(done.stdout) <= {"code"}, done.stdout
    push(ada, "both domains")


def test_new_class_arrives_last_in_every_domain_without_images(team):
    ada, ben, eva = team.ada, team.ben, team.eva
    for person, domains in ((ada, ("left", "right", "ada")), (eva, ("eva",))):
        pull(person)
        for domain in domains:
            draw_domain(person.folder / "data" / domain, ("bat",), 6, seed=3)
        done = person.run(*PULL, *domain_stages(feature_stages(*domains)))
        assert done.stdout.count("arrive last: bat") == len(domains)
        push(person, f"bats of {person.folder.name}")
    pull(ben)
    assert not [stage for stage in run_as_ben(team) if stage.startswith("tasks")]
    orders = [(ben.folder / f"orders/{d}.json").read_text() for d in ("left", "right", "ada", "eva")]
    assert '"dog"],\n  ["bat"]' in orders[0]
    assert len({order.rpartition('{"asked"')[2] for order in orders}) == 1
    push(ben, "five classes")


def test_queue_of_experiments_succeeds_without_images(team):
    """Experiments with images are in test_experiments.py."""
    ben = team.ben
    ben.run("dvc", "exp", "run", "--queue", "--pull", "--allow-missing", "-S", "rff.D=20,30")
    ben.run("dvc", "exp", "run", "--run-all", **team.hidden)
    states = ben.run("dvc", "queue", "status").stdout
    assert states.count("Success") == 2, states


def test_domain_becomes_private_while_an_image_is_added_and_removed(team):
    """DVC's run-cache restores old pointers, so the private files that they point to must be kept."""
    eva, ben = team.eva, team.ben
    pull(eva)
    eva.change_params(data={"private": ["eva"]})
    stages = domain_stages(all_stages({"domains": ["eva"], "models": ["vit", "clip"]}))
    new = eva.folder / "data/eva/bee/new.png"
    eva.run(*PULL, *stages)
    for _ in range(2):
        draw_image(new, 77)
        eva.run(*PULL, *stages)
        new.unlink()
        eva.run(*PULL, *stages)
    push(eva, "eva is private")
    pull(ben)
    assert run_as_ben(team) <= {"code", "tables", "report"}


def test_different_weights_are_refused_and_none_are_downloaded(team):
    """Try an empty folder, which asks for the hub's weights, and then a file with other weights."""
    ben = team.ben
    (ben.folder / "weights/vit").mkdir()
    for _ in range(2):
        done = ben.run(*PULL, ok=False, **team.hidden)
        assert done.returncode
        assert "weights/vit: " in done.stderr
        assert "model.safetensors with sha256" in done.stderr
        (ben.folder / "weights/vit/mine.pth").write_bytes(b"other numbers")
    assert "mine.pth with sha256" in done.stderr
