"""In every suite of the repository, a teammate with neither images nor weights gets a result from features.

The clone has what git gives: `weights/README.md` and the digits' models, and no other checkpoint.
"""

import pytest

from sharing_story import in_clone, without_encoders
from small_project import ROOT, SmallProject, stages_run
from suite_project import suite_project

# all21 is these four together (tests/suites/test_suites.py); each by itself: test_suites_to_tables.py
IN_ALL21 = {"office31", "officehome", "visda", "domainnet"}
SUITES = sorted({file.stem for file in (ROOT / "suites").glob("*.yaml")} - IN_ALL21)
FEATURES = ("manifest", "order", "tasks", "model", "embed", "prompts")
ABOVE_BASIS = {"code", "generate", *FEATURES}

pytestmark = pytest.mark.slow


def extract_and_push(owner, remote):
    """Make all features of the suite in this process, and let DVC and git have them."""
    params = owner.read_params()
    keys = {
        "generate": params["generated"],
        **dict.fromkeys(("manifest", "order", "tasks", "prompts"), params["domains"]),
        "model": params["models"],
    }
    stages = [(stage, key) for stage, section in keys.items() for key in section]
    embed = [("embed", domain, model) for domain in params["domains"] for model in params["models"]]
    order = ("generate", "manifest", "order", "tasks", "model", "embed", "prompts")
    owner.run_here(("code",), *sorted([*stages, *embed], key=lambda args: order.index(args[0])))
    kept = [name for name in order if name != "generate" or params["generated"]]
    owner.run("dvc", "commit", "--quiet", "--force", "code", *kept)
    owner.run("dvc", "remote", "add", "--quiet", "--default", "team", str(remote))
    owner.run("git", "add", ".")
    owner.run("git", "commit", "--quiet", "-m", "features of our images")
    owner.run("dvc", "push", "--quiet", *kept, "code")


@pytest.mark.parametrize(
    "suite", [pytest.param(s, marks=[] if s == "template" else [pytest.mark.long]) for s in SUITES]
)
def test_a_result_without_an_image_and_without_weights(suite, tmp_path):
    (tmp_path / "owner").mkdir()
    owner = suite_project(tmp_path / "owner", suite)
    extract_and_push(owner, tmp_path / "remote")
    owner.run("git", "clone", "--quiet", str(owner.folder), str(tmp_path / "mate"))
    mate = SmallProject(tmp_path / "mate")
    assert {file for file in in_clone(mate) if not file.startswith("weights/digits")} == {
        "data/README.md",
        "weights/README.md",
        "cache/README.md",
    }
    params = mate.read_params()
    mate.change_params(rff={"sigma": 1e-2})
    result = next((f"evaluate@{problem}" for problem in params["problems"]), "source@photos")
    apart = without_encoders(tmp_path)
    done = mate.run("dvc", "repro", "--pull", "--allow-missing", result, **apart)
    ran = stages_run(done.stdout)
    assert result in ran
    assert not {stage for stage in ran if stage.split("@")[0] in ABOVE_BASIS}, ran
    assert not (tmp_path / "an encoder was imported").exists()
