"""Real `dvc repro` runs: a change reruns what it must and nothing else. All kinds of change: test_what_runs_again.py.

The tests go one after another: each starts from what the one before left.
"""

import pytest

from small_project import draw_image, stages_run

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def project(run_project):
    return run_project


def test_one_new_image_re_embeds_its_domain_and_computes_only_that_image(project):
    draw_image(project.folder / "data" / "right" / "bee" / "new.png", seed=77)
    done = project.run("dvc", "repro", "adapt@left-right")
    ran = stages_run(done.stdout)
    assert ran == {"manifest@right", "tasks@right", "embed@right-vit", "embed@right-clip", "adapt@left-right"}
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
