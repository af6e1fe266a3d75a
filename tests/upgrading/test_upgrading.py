"""`referee upgrade` takes over the features of every released version without images.

These tests run the commands of docs/how-to/upgrading.md, except that they run stages directly instead of `dvc repro`.
As in a real merge, the params.yaml of upstream and of the user conflict.

An archive contains dvc.lock, params.yaml and the caches of the small project (three images per class), written by that
version. To add one at a release, run the small project at its tag and pack the same folders.
"""

import json
import shutil
import tarfile
from pathlib import Path

import pytest

from pipeline.cli.main import main
from pipeline.cli.upgrade import convert_manifest, replace_lists
from pipeline.config.params import load_params
from pipeline.datasets.manifest_files import read_images
from pipeline.errors import InputError, ParamsError, StoreError
from pipeline.store.array_store import open_arrays
from pipeline.store.source_store import SCHEMA
from small_project import PROBLEM, ROOT, SmallProject, draw_image, feature_stages, stages_run

ARCHIVES = sorted(Path(__file__).parent.glob("*.tar.xz"))
TAKEN_OVER = {"manifest", "model", "embed", "prompts"}

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore::DeprecationWarning")]


@pytest.fixture(params=ARCHIVES, ids=lambda path: path.name)
def project(request, tmp_path, monkeypatch):
    """Change into an old project without images and weights, after `git merge` left a conflict in params.yaml."""
    monkeypatch.chdir(tmp_path)
    with tarfile.open(request.param) as archive:
        archive.extraction_filter = getattr(tarfile, "data_filter", None)  # Python 3.11.4
        archive.extractall(tmp_path)
    project = SmallProject(tmp_path)
    project.git_init()
    project.run("git", "checkout", "--quiet", "-b", "mine")
    params_file = tmp_path / "params.yaml"
    user_params = params_file.read_text()

    def commit(content, *files):
        params_file.write_text(content)
        project.run("git", "add", "params.yaml", *files)
        project.run("git", "commit", "--quiet", "-m", "params")

    commit(user_params.replace("D: 50", "D: 6000"))
    project.run("git", "branch", "upstream")
    commit(user_params, "dvc.lock")
    project.run("git", "checkout", "--quiet", "upstream")
    project.add_graph()
    shutil.copy(ROOT / "suite.yaml", tmp_path)
    commit((ROOT / "params.yaml").read_text(), "pipeline", "dvc.yaml", "suite.yaml", ".dvc")
    project.run("git", "checkout", "--quiet", "mine")
    merged = project.run("git", "merge", "upstream", ok=False)
    assert "CONFLICT (content): Merge conflict in params.yaml" in merged.stdout
    return project


def upgrade(project):
    """Resolve the conflict and upgrade, as documented."""
    project.run("git", "checkout", "HEAD", "--", "params.yaml")
    assert main(["upgrade"]) == 0


def test_features_and_parameters_are_kept(project, capsys):
    old_store = Path("cache/source/left.zarr")
    with pytest.raises(StoreError, match=rf"{old_store}: schema .*dvc repro --allow-missing.*upgrading"):
        open_arrays(old_store, SCHEMA)
    assert main(["upgrade"]) == 2  # the conflict is not resolved
    assert "git checkout HEAD -- params.yaml" in capsys.readouterr().err
    upgrade(project)
    out = capsys.readouterr().out
    taken_over = {line.split(":")[0] for line in out.splitlines() if line.endswith(": taken over")}
    stages = {"@".join((stage, "-".join(keys))) for stage, *keys in feature_stages("left", "right")}
    assert taken_over == {name for name in stages if name.split("@")[0] in TAKEN_OVER}
    assert "pseudo_label@" not in Path("dvc.lock").read_text()  # an obsolete stage
    assert "suite.yaml: suite, datasets" in out
    assert "params.yaml: rff.bases removed" in out
    assert "params.yaml: select added" in out
    assert "suite.yaml: steps added" in out
    params = project.read_params()
    assert (params["suite"], params["rff"]["D"]) == ("toy", 50)
    load_params()
    before = Path("params.yaml").read_bytes(), Path("suite.yaml").read_bytes()
    assert main(["upgrade"]) == 0  # a second upgrade changes nothing
    assert before == (Path("params.yaml").read_bytes(), Path("suite.yaml").read_bytes())
    done = project.run("dvc", "repro", "--allow-missing", "--dry", "embed", "prompts")
    assert stages_run(done.stdout) == set()
    tasks = [(stage, domain) for domain in ("left", "right") for stage in ("order", "tasks")]
    project.run_in_process(*tasks, ("source", "left"), ("adapt", PROBLEM), ("evaluate", PROBLEM))
    assert project.results("evaluations", f"{PROBLEM}.json").is_file()


def test_outputs_that_are_missing_outdated_or_do_not_fit_the_manifest_are_not_taken_over(project, capsys):
    images = Path("cache/manifests/right/images.csv")
    images.write_text("".join(images.read_text().splitlines(keepends=True)[:-1]))
    draw_image(Path("data/left/ant/0.png"), 9)  # other images than those of the manifest
    shutil.rmtree("cache/prompts/left.zarr")
    Path("cache/code/prompts.json").write_text(json.dumps({"version": 99}))
    upgrade(project)
    out = capsys.readouterr().out
    assert "embed@left-vit: taken over" in out
    assert "embed@right-vit: taken over" not in out
    assert "manifest@left: data/left has changed since" in out
    assert "prompts@left: cache/prompts/left.zarr is missing" in out
    assert "prompts@right: this version computes it differently" in out


def test_lists_of_images_are_joined_into_one_file_per_domain(project, capsys):
    upgrade(project)
    lists = {n: {"file": f"data/{n}.txt", "domain": "left", "root": "data/left"} for n in ("train", "test")}
    with Path("suite.yaml").open("a") as suite:
        suite.write(f"lists: {json.dumps(lists)}\n")
    copy = Path("cache/lists/left/train.txt")  # as pulled by a teammate without images
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
    assert "domains.left.images is now data/left/left.txt" in out
    assert "manifest@left: taken over" in out
    assert Path("data/left/left.txt").read_text() == "ant/0.png 0\nant/1.png 0\nbee/0.png 1\n"


def test_killed_conversion_of_a_manifest_can_be_repeated(project, monkeypatch):
    """Kill the conversion while it deletes the old files. Earlier moments are tested with the manifest files."""
    removed, unlink = [], Path.unlink

    def interrupted_unlink(self, **options):
        if self.suffix == ".csv" and self.parent == Path("cache/manifests/left"):
            if removed:
                raise KeyboardInterrupt
            removed.append(self)
        unlink(self, **options)

    with monkeypatch.context() as patch:
        patch.setattr(Path, "unlink", interrupted_unlink)
        with pytest.raises(KeyboardInterrupt):
            convert_manifest(Path("cache/manifests/left"))
    convert_manifest(Path("cache/manifests/left"))
    assert len(read_images(Path("cache/manifests/left"))) == 12


@pytest.mark.parametrize("text", ["a/0.png 0\r\nb/1.png 1", "my notes\n", "a/0.png 0\n"])
def test_existing_file_is_not_overwritten_by_the_joined_list(tmp_path, monkeypatch, text):
    monkeypatch.chdir(tmp_path)
    Path("list.txt").write_text("a/0.png 0\nb/1.png 1\n")
    existing = Path("left.txt")
    existing.write_bytes(text.encode())
    entries = {name: {"file": "list.txt", "domain": name, "root": "."} for name in ("first", "left")}
    suite = {"domains": {"first": {}, "left": {"images": "cache/lists/left"}}, "lists": entries}
    if "b/1.png" in text:  # the same lines
        assert replace_lists(suite)["left"] == existing
        assert suite["domains"]["left"]["images"] == "left.txt"
    else:
        with pytest.raises(InputError, match=r"^left\.txt: .*move it away.*domains\.left\.images"):
            replace_lists(suite)
        assert not Path("first.txt").exists()  # all files are checked before one is written
    assert existing.read_bytes() == text.encode()
