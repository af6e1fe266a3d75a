"""Real `dvc repro` runs: a change reruns what it must and nothing else. All kinds of change: test_what_runs_again.py.

The tests go one after another: each starts from what the one before left.
"""

import pytest

from small_project import draw_image, stages_run

pytestmark = pytest.mark.slow

EMBED = {f"embed@{domain}-{model}" for domain in ("left", "right") for model in ("vit", "clip")}
PROBE = {"probe@left", "probe@right"}
ADAPT = {f"{stage}@left-right" for stage in ("adapt", "evaluate")}


@pytest.fixture(scope="module")
def project(run_project):
    return run_project


def repro(project):
    """Return what ran, but for `tables` and `metrics`: they run if a figure changed, and of so few images none may.

    `report` shows all params and runs whenever anything else does.
    """
    ran = project.repro()
    assert "report" in ran
    return ran - {"tables", "report", "evaluate@all@toy"}


def edit(project, module, text):
    with (project.folder / "pipeline" / module).open("a") as file:
        file.write(text)


def test_how_the_work_is_done_reruns_nothing(project):
    project.change_params(runtime={"workers": 1, "batch_size": 5})
    assert project.repro() == set()


def test_comments_rerun_nothing_and_code_reruns_no_extraction(project):
    for module in ("method/rows.py", "encoders/preprocessing.py", "stages/embed.py"):
        edit(project, module, "# a comment\n")
    assert project.repro() == {"code"}
    edit(project, "encoders/preprocessing.py", "UNUSED = 1\n")
    edit(project, "stages/probe.py", "UNUSED = 1\n")
    ran = repro(project)
    assert ran >= {"code"} | PROBE
    assert not ran & (EMBED | {"manifest@left", "manifest@right", "prompts@left", "prompts@right"})


def test_one_new_image_re_embeds_its_domain_and_computes_only_that_image(project):
    draw_image(project.folder / "data" / "right" / "bee" / "new.png", seed=77)
    done = project.run("dvc", "repro", "adapt@left-right")
    ran = stages_run(done.stdout)
    embedded = {"manifest@right", "tasks@right", "embed@right-vit", "embed@right-clip"}
    assert ran == embedded | ADAPT - {"evaluate@left-right"}
    messages = [line for line in done.stdout.splitlines() if line.startswith("embed right")]
    assert ["; 1 embedded now" in message for message in messages] == [True, True]


def test_a_new_class_arrives_last_and_says_so(project):
    """DVC must leave orders/ in place, where the order of the others is."""
    before = (project.folder / "orders/left.json").read_text()
    for domain in ("left", "right"):
        draw_image(project.folder / "data" / domain / "bat" / "0.png", seed=5)
    done = project.run("dvc", "repro", "tasks")
    assert done.stdout.count("arrive last: bat") == 2
    after = (project.folder / "orders/left.json").read_text()
    assert after == before.replace('"dog"]', '"dog"],\n  ["bat"]')
    assert project.repro("tasks") == set()
