"""A team of three over a project's life, with real git, real DVC, real clones and a shared folder.

Ada has images and weights, and extracts. Ben has neither. Eva joins with a domain of her own. The tests go one after
another: each starts from what the one before left. The queue is that of docs/how-to/sharing.md, with other values.
"""

import shutil
from types import SimpleNamespace

import pytest

from sharing_story import PULL, cloned_files, hide_encoders, join, publish, shared_folder
from small_project import SmallProject, draw_domain, draw_image, stages_run

pytestmark = [pytest.mark.slow, pytest.mark.long]

COSTLY = ("generate", "manifest", "model", "embed", "prompts")


@pytest.fixture(scope="module")
def team(run_project, tmp_path_factory):
    """Ada has run and shared the project; git's one place for all of them is a bare repository."""
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
    return SimpleNamespace(ada=ada, ben=ben, eva=eva, apart=hide_encoders(folder))


def without_images(team):
    """Run Ben's one command; no stage above `source` but `code` and `tasks` may run."""
    ran = stages_run(team.ben.run(*PULL, **team.apart).stdout)
    assert not {stage for stage in ran if stage.split("@")[0] in COSTLY}, ran
    return ran


def hand_over(person, message):
    """Commit and push everything; the others pull it."""
    person.run("dvc", "push", "--quiet")
    person.commit(message)
    person.run("git", "push", "--quiet", "origin", "HEAD")


def take_over(person):
    """Do what docs/how-to/sharing.md says: outputs of the former commit go before anything runs."""
    person.run("git", "pull", "--quiet", "--no-rebase", "origin", "HEAD")
    person.run("dvc", "pull", "--quiet", "--allow-missing")


def describe_domain(person, name):
    left = person.read_params()["domains"]["left"]
    person.change_params(domains={name: {**left, "images": f"data/{name}"}})


def extract_domain(person, name):
    """Add a domain of one's own images, and extract it."""
    describe_domain(person, name)
    draw_domain(person.folder / "data" / name, ("ant", "bee", "cat", "dog"), 6, seed=2)
    person.run(*PULL, *features_of(name))


def features_of(domain):
    """Return the stages whose outputs a teammate needs of a domain."""
    return f"embed@{domain}-vit", f"embed@{domain}-clip", f"prompts@{domain}", f"tasks@{domain}"


def test_ada_and_eva_extract_two_domains_and_merge(team):
    """Both extractions survive the merge, and nothing runs after it."""
    ada, eva = team.ada, team.eva
    take_over(eva)
    extract_domain(eva, "eva")
    hand_over(eva, "domain eva")
    extract_domain(ada, "ada")
    ada.run("dvc", "push", "--quiet")
    ada.commit("domain ada")
    ada.run("git", "pull", "--quiet", "--no-rebase", "origin", "HEAD", ok=False)
    ada.run("git", "checkout", "--theirs", "suite.yaml")
    describe_domain(ada, "ada")
    ada.run("referee", "merge-lock")
    done = ada.run(*PULL, "embed", "prompts", "tasks")
    assert stages_run(done.stdout) <= {"code"}, done.stdout
    hand_over(ada, "both domains")


def test_a_new_class_arrives_last_in_every_domain_and_ben_needs_no_image(team):
    ada, ben, eva = team.ada, team.ben, team.eva
    for person, domains in ((ada, ("left", "right", "ada")), (eva, ("eva",))):
        take_over(person)
        for domain in domains:
            draw_domain(person.folder / "data" / domain, ("bat",), 6, seed=3)
        done = person.run(*PULL, *(target for domain in domains for target in features_of(domain)))
        assert done.stdout.count("arrive last: bat") == len(domains)
        hand_over(person, f"bats of {person.folder.name}")
    take_over(ben)
    assert not [s for s in without_images(team) if s.startswith("tasks")]
    orders = [(ben.folder / f"orders/{d}.json").read_text() for d in ("left", "right", "ada", "eva")]
    assert '"dog"],\n  ["bat"]' in orders[0]
    assert len({order.rpartition('{"asked"')[2] for order in orders}) == 1
    hand_over(ben, "five classes")


def test_a_queue_of_experiments_succeeds_without_images(team):
    """With images: test_experiments.py."""
    ben = team.ben
    ben.run("dvc", "exp", "run", "--queue", "--pull", "--allow-missing", "-S", "rff.D=20,30")
    ben.run("dvc", "exp", "run", "--run-all", **team.apart)
    states = ben.run("dvc", "queue", "status").stdout
    assert states.count("Success") == 2, states


def test_a_domain_becomes_private_and_an_image_comes_and_goes(team):
    """DVC's run-cache brings old pointers back; the files that they point to are kept."""
    eva, ben = team.eva, team.ben
    take_over(eva)
    eva.change_params(data={"private": ["eva"]})
    features = ("embed@eva-vit", "embed@eva-clip", "tasks@eva", "probe@eva")
    new = eva.folder / "data/eva/bee/new.png"
    eva.run(*PULL, *features)
    for _ in range(2):
        draw_image(new, 77)
        eva.run(*PULL, *features)
        new.unlink()
        eva.run(*PULL, *features)
    hand_over(eva, "eva is private")
    take_over(ben)
    assert without_images(team) <= {"code", "tables", "report"}


def test_other_weights_are_refused_naming_both_sides_and_none_are_downloaded(team):
    """An empty folder would be the hub's weights, a file those of somebody."""
    ben = team.ben
    (ben.folder / "weights/vit").mkdir()
    for _ in range(2):
        done = ben.run(*PULL, ok=False, **team.apart)
        assert done.returncode
        assert "weights/vit: " in done.stderr
        assert "model.safetensors with sha256" in done.stderr
        (ben.folder / "weights/vit/mine.pth").write_bytes(b"other numbers")
    assert "mine.pth with sha256" in done.stderr
