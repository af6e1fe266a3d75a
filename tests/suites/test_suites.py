"""Every suite is valid and has the classes, tasks and problems of the paper."""

import functools
import itertools
import shutil
from pathlib import Path

import pytest

from pipeline.cli.use import use
from pipeline.config.params import load_params
from pipeline.datasets.kept_order import order_of_arrival
from pipeline.datasets.label_spaces import PARTS, parts_of

ROOT = Path(__file__).parents[2]
SUITES = sorted(file.stem for file in (ROOT / "suites").glob("*.yaml"))
TABLE = {  # dataset: classes, tasks, problems
    "digits": (10, 5, 4),
    "office31": (31, 5, 6),
    "officehome": (65, 13, 12),
    "visda": (12, 4, 1),
    "domainnet": (345, 15, 2),
}
SPACES = {  # classes shared, source-only, target-only: https://github.com/szubing/uniood, scripts/run_clip*.sh
    "office31": {"partial": (10, 21, 0), "open": (10, 0, 21), "universal": (10, 10, 11)},
    "officehome": {"partial": (25, 40, 0), "open": (15, 0, 50), "universal": (10, 5, 50)},
    "visda": {"partial": (6, 6, 0), "open": (6, 0, 6), "universal": (6, 3, 3)},
    "domainnet": {"partial": (150, 195, 0), "open": (150, 0, 195), "universal": (150, 50, 145)},
}


@pytest.fixture(scope="module")
def params_of(tmp_path_factory):
    """Return a function that returns the parameters of a project with a given suite."""
    root = tmp_path_factory.mktemp("project")
    shutil.copytree(ROOT / "suites", root / "suites")
    shutil.copy(ROOT / "params.yaml", root)

    @functools.cache
    def load_suite(suite):
        use(suite, root)
        return load_params(root)

    return load_suite


def test_suite_yaml_equals_the_digits_suite():
    assert (ROOT / "suite.yaml").read_bytes() == (ROOT / "suites/digits.yaml").read_bytes()


@pytest.mark.parametrize("suite", SUITES)
def test_suite_is_valid_and_complete(suite, params_of):
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


@pytest.mark.parametrize("dataset", SPACES)
def test_label_spaces_agree_with_the_literature(dataset, params_of):
    for suite, (space, sizes) in itertools.product((dataset, "all21"), SPACES[dataset].items()):
        settings = params_of(suite).datasets[dataset]
        parts = parts_of(space, settings.class_names, **settings.label_spaces[space].members())
        owners = list(parts.values())
        assert tuple(owners.count(part) for part in PARTS) == sizes, (suite, space)
    # of `universal`, the last space
    names = {part: [name for name, p in parts.items() if p == part] for part in PARTS}
    if dataset == "office31":  # the first and last class of each part; together, labels 10 to 30
        assert [names["source"][0], names["source"][-1]] == ["bike_helmet", "paper_notebook"]
        assert [names["target"][0], names["target"][-1]] == ["pen", "trash_can"]
    if dataset == "domainnet":
        assert names["shared"][0] == "aircraft_carrier"
        assert "The_Mona_Lisa" in names["target"]


@pytest.mark.parametrize("dataset", TABLE)
def test_numbers_of_classes_tasks_and_problems(dataset, params_of):
    params = params_of(dataset)
    classes, tasks, problems = TABLE[dataset]
    settings = params.datasets[dataset]
    assert list(settings.class_names) == sorted(settings.class_names)
    assert len(settings.class_names) == classes
    assert len(order_of_arrival(settings.class_names, classes_per_task=settings.classes_per_task)) == tasks
    assert len(params.problems) == problems
    names = list(settings.class_names.values())
    assert len(set(names)) == len(names)
    assert all("_" not in name and name == " ".join(name.split()) for name in names)


def test_all21_is_the_union_of_the_other_suites(params_of):
    whole = params_of("all21")
    assert len(whole.problems) == 21
    parts = [params_of(name) for name in ("office31", "officehome", "visda", "domainnet")]
    for part in parts:
        assert whole.models == part.models
        assert whole.published == part.published
        for section in ("datasets", "domains", "problems"):
            assert getattr(part, section).items() <= getattr(whole, section).items()
    assert len(whole.domains) == sum(len(part.domains) for part in parts) == 11
