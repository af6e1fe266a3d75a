"""Projects of every released version: their features are taken over without an image, the rest is made again.

The page is docs/how-to/upgrading.md; of its commands git's and `referee upgrade` are run here,
and the stages that `dvc repro` would run. Upstream's params.yaml and the user's conflict, as they do in a real merge.

An archive holds dvc.lock, params.yaml and the caches of the small project (three images per class), as that version
wrote them. To add one at a release: run the small project at its tag and pack the same folders.
"""

import json
import shutil
import tarfile
from pathlib import Path

import pytest

from pipeline.cli.main import main
from pipeline.cli.upgrade import convert_manifest, lists_as_images
from pipeline.config.params import load_params
from pipeline.datasets.manifest_files import read_images
from pipeline.errors import InputError, ParamsError, StoreError
from pipeline.store.array_store import open_arrays
from pipeline.store.source_store import SCHEMA
from small_project import PROBLEM, ROOT, SmallProject, features_of, stages_run

ARCHIVES = sorted(Path(__file__).parent.glob("*.tar.xz"))
COSTLY = {"manifest", "model", "embed", "prompts"}

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore::DeprecationWarning")]


@pytest.fixture(params=ARCHIVES, ids=lambda path: path.name)
def project(request, tmp_path, monkeypatch):
    """Be in the project after `git merge`, without images and weights, whose conflict in params.yaml is still there."""
    monkeypatch.chdir(tmp_path)
    with tarfile.open(request.param) as archive:
        archive.extraction_filter = getattr(tarfile, "data_filter", None)  # Python 3.11.4
        archive.extractall(tmp_path)
    project = SmallProject(tmp_path)
    project.git_init()
    project.run("git", "checkout", "--quiet", "-b", "mine")
    numbers = tmp_path / "params.yaml"
    mine = numbers.read_text()

    def commit(content, *files):
        numbers.write_text(content)
        project.run("git", "add", "params.yaml", *files)
        project.run("git", "commit", "--quiet", "-m", "one more")

    commit(mine.replace("D: 50", "D: 6000"))
    project.run("git", "branch", "upstream")
    commit(mine, "dvc.lock")
    project.run("git", "checkout", "--quiet", "upstream")
    project.add_graph()
    shutil.copy(ROOT / "suite.yaml", tmp_path)
    commit((ROOT / "params.yaml").read_text(), "pipeline", "dvc.yaml", "suite.yaml", ".dvc")
    project.run("git", "checkout", "--quiet", "mine")
    merged = project.run("git", "merge", "upstream", ok=False)
    assert "CONFLICT (content): Merge conflict in params.yaml" in merged.stdout
    return project


def upgrade(project):
    """Run what the page says."""
    project.run("git", "checkout", "HEAD", "--", "params.yaml")
    assert main(["upgrade"]) == 0


def test_features_are_taken_over_nothing_is_extracted_again_and_params_keep_their_values(project, capsys):
    old = Path("cache/source/left.zarr")
    with pytest.raises(StoreError, match=rf"{old}: schema .*dvc repro --allow-missing.*upgrading"):
        open_arrays(old, SCHEMA)
    assert main(["upgrade"]) == 2  # git's conflict is still there
    assert "git checkout HEAD -- params.yaml" in capsys.readouterr().err
    upgrade(project)
    out = capsys.readouterr().out
    taken = {line.split(":")[0] for line in out.splitlines() if line.endswith(": taken over")}
    wanted = {"@".join((stage, "-".join(keys))) for stage, *keys in features_of("left", "right")}
    assert taken == {name for name in wanted if name.split("@")[0] in COSTLY}
    assert "pseudo_label@" not in Path("dvc.lock").read_text()  # no stage any more
    assert "suite.yaml: suite, datasets" in out
    assert "params.yaml: rff.bases is gone" in out
    assert "params.yaml: select is new" in out
    assert "suite.yaml: steps is new" in out
    params = project.read_params()
    assert (params["suite"], params["rff"]["D"]) == ("toy", 50)
    load_params()
    before = Path("params.yaml").read_bytes(), Path("suite.yaml").read_bytes()
    assert main(["upgrade"]) == 0  # again: nothing more to do
    assert before == (Path("params.yaml").read_bytes(), Path("suite.yaml").read_bytes())
    done = project.run("dvc", "repro", "--allow-missing", "--dry", "embed", "prompts")
    assert stages_run(done.stdout) == set()
    tasks = [(stage, domain) for domain in ("left", "right") for stage in ("order", "tasks")]
    project.run_here(*tasks, ("source", "left"), ("adapt", PROBLEM), ("evaluate", PROBLEM))
    assert project.results("evaluations", f"{PROBLEM}.json").is_file()


def test_what_changed_meanwhile_is_not_taken_over(project, capsys):
    images = Path("cache/manifests/right/images.csv")  # all tables were in one folder
    images.write_text("".join(images.read_text().splitlines(keepends=True)[:-1]))
    upgrade(project)
    out = capsys.readouterr().out
    assert "embed@left-vit: taken over" in out
    assert "embed@right-vit: taken over" not in out


def test_lists_of_images_become_the_images_of_their_domain(project, capsys):
    upgrade(project)
    lists = {n: {"file": f"data/{n}.txt", "domain": "left", "root": "data/left"} for n in ("train", "test")}
    with Path("suite.yaml").open("a") as suite:
        suite.write(f"lists: {json.dumps(lists)}\n")
    copy = Path("cache/lists/left/train.txt")  # of a teammate who has no images
    copy.parent.mkdir(parents=True)
    copy.write_text("ant/0.png 0\nant/1.png 0")
    Path("data").mkdir(exist_ok=True)
    Path("data/test.txt").write_text("bee/0.png 1\n")
    capsys.readouterr()
    with pytest.raises(ParamsError, match=r"suite\.yaml: lists: .*referee upgrade"):
        load_params()
    assert main(["upgrade"]) == 0
    assert load_params().domains["left"].images == "data/left/left.txt"
    out = capsys.readouterr().out
    assert "domains.left.images is data/left/left.txt" in out
    assert "manifest@left: taken over" in out
    assert Path("data/left/left.txt").read_text() == "ant/0.png 0\nant/1.png 0\nbee/0.png 1\n"


def test_an_upgrade_that_was_killed_is_run_again(project, monkeypatch):
    """As its last file but one is taken away; other moments are those of any manifest that is written."""
    removed, unlink = [], Path.unlink

    def killed(self, **options):
        if self.suffix == ".csv" and self.parent == Path("cache/manifests/left"):
            if removed:
                raise KeyboardInterrupt
            removed.append(self)
        unlink(self, **options)

    with monkeypatch.context() as patch:
        patch.setattr(Path, "unlink", killed)
        with pytest.raises(KeyboardInterrupt):
            convert_manifest(Path("cache/manifests/left"))
    convert_manifest(Path("cache/manifests/left"))
    assert len(read_images(Path("cache/manifests/left"))) == 12


@pytest.mark.parametrize("text", ["a/0.png 0\r\nb/1.png 1", "my notes\n", "a/0.png 0\n"])
def test_a_file_in_the_place_of_the_new_list_is_never_overwritten(tmp_path, monkeypatch, text):
    monkeypatch.chdir(tmp_path)
    Path("list.txt").write_text("a/0.png 0\nb/1.png 1\n")
    mine = Path("left.txt")
    mine.write_bytes(text.encode())
    entries = {name: {"file": "list.txt", "domain": name, "root": "."} for name in ("first", "left")}
    suite = {"domains": {"first": {}, "left": {"images": "cache/lists/left"}}, "lists": entries}
    if "b/1.png" in text:  # it says the same
        assert lists_as_images(suite)["left"] == mine
        assert suite["domains"]["left"]["images"] == "left.txt"
    else:
        with pytest.raises(InputError, match=r"^left\.txt: .*move it away.*domains\.left\.images"):
            lists_as_images(suite)
        assert not Path("first.txt").exists()  # nothing is written before all is known to be well
    assert mine.read_bytes() == text.encode()
