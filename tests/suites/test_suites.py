"""Every suite is valid, and has the classes, tasks and problems of METHOD.md's table."""

import functools
import shutil
from pathlib import Path

import pytest

from pipeline.cli.use import use
from pipeline.datasets.prompts import prompts
from pipeline.datasets.tasks import class_order, task_of_classes
from pipeline.params import load_params

ROOT = Path(__file__).parents[2]
SUITES = sorted(file.stem for file in (ROOT / "suites").glob("*.yaml"))
TABLE = {  # dataset: classes, tasks, problems
    "digits": (10, 5, 4),
    "office31": (31, 5, 6),
    "officehome": (65, 13, 12),
    "visda": (12, 4, 1),
    "domainnet": (345, 15, 2),
}


@pytest.fixture(scope="module")
def params_of(tmp_path_factory):
    """Return a function that gives the params of a project that uses a suite."""
    root = tmp_path_factory.mktemp("project")
    shutil.copytree(ROOT / "suites", root / "suites")
    shutil.copy(ROOT / "params.yaml", root)

    @functools.cache
    def used(suite):
        use(suite, root)
        return load_params(root)

    return used


def test_suite_yaml_is_the_default_suite_byte_for_byte():
    assert (ROOT / "suite.yaml").read_bytes() == (ROOT / "suites/digits.yaml").read_bytes()


@pytest.mark.parametrize("suite", SUITES)
def test_a_suite_is_valid_and_complete(suite, params_of):
    params = params_of(suite)
    assert params.suite == suite
    for name, problem in params.problems.items():
        assert name == f"{problem.source}-{problem.target}"
        assert set(params.domains[problem.target].views) == {"original", "zeros", "rand"}
    weights = (ROOT / "weights/README.md").read_text()
    for model in params.models.values():
        origin = ROOT / model.origin
        if model.library != "imported":
            assert list(origin.glob("*.safetensors")) or f"`{model.origin}`" in weights


@pytest.mark.parametrize("dataset", TABLE)
def test_classes_tasks_and_problems(dataset, params_of):
    params = params_of(dataset)
    classes, tasks, problems = TABLE[dataset]
    chosen = params.datasets[dataset]
    order = class_order((), chosen.class_names)
    assert list(order) == list(chosen.class_names) == sorted(chosen.class_names)
    assert len(order) == classes
    assert max(task_of_classes(order, chosen.classes_per_task).values()) + 1 == tasks
    assert len(params.problems) == problems
    names = list(chosen.class_names.values())
    assert len(set(names)) == len(names)
    assert all("_" not in name and name == " ".join(name.split()) for name in names)


def test_all21_is_the_others_together(params_of):
    whole = params_of("all21")
    assert len(whole.problems) == 21
    parts = [params_of(name) for name in ("office31", "officehome", "visda", "domainnet")]
    for part in parts:
        assert whole.models == part.models
        assert whole.published == part.published
        for section in ("datasets", "domains", "problems"):
            assert getattr(part, section).items() <= getattr(whole, section).items()
    assert len(whole.domains) == sum(len(part.domains) for part in parts) == 11


def test_prompts_are_good_english(params_of):
    params = params_of("domainnet")
    names = params.datasets["domainnet"].class_names
    clipart = params.domains["domainnet_clipart"].templates
    assert prompts(names["The_Eiffel_Tower"], clipart)[0] == "a clipart of the Eiffel Tower"
    assert prompts(names["aircraft_carrier"], clipart)[0] == "a clipart of an aircraft carrier"
    assert prompts(names["scissors"], clipart)[0] == "a clipart of a pair of scissors"
