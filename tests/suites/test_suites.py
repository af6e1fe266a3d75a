"""Every suite is valid, and says what METHOD.md's table says."""

import functools
import shutil
from pathlib import Path

import pytest
from ruamel.yaml import YAML

from pipeline.cli.use import use
from pipeline.datasets.class_names import class_order
from pipeline.datasets.prompts import prompts
from pipeline.datasets.tasks import task_of_classes
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
    root = tmp_path_factory.mktemp("project")
    shutil.copytree(ROOT / "suites", root / "suites")

    @functools.cache
    def used(suite):
        shutil.copy(ROOT / "params.yaml", root)
        use(suite, root / "params.yaml")
        return load_params(root / "params.yaml")

    return used


def test_there_is_a_suite_for_every_dataset():
    assert sorted([*TABLE, "all21", "office_caltech10", "template"]) == SUITES


@pytest.mark.parametrize("suite", SUITES)
def test_it_is_valid_and_bears_its_own_name(suite, params_of):
    assert params_of(suite).suite == suite


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


def test_all21_is_the_others_together(params_of):
    whole = params_of("all21")
    assert len(whole.problems) == 21
    parts = [params_of(name) for name in ("office31", "officehome", "visda", "domainnet")]
    for part in parts:
        assert whole.models == part.models
        assert whole.rff == part.rff
        for section in ("datasets", "domains", "problems"):
            assert getattr(part, section).items() <= getattr(whole, section).items()
    assert len(whole.domains) == sum(len(part.domains) for part in parts) == 11


@pytest.mark.parametrize("suite", SUITES)
def test_problems_are_named_after_their_domains(suite, params_of):
    for name, problem in params_of(suite).problems.items():
        assert name == f"{problem.source}-{problem.target}"


@pytest.mark.parametrize("suite", SUITES)
def test_a_target_has_every_view(suite, params_of):
    params = params_of(suite)
    for problem in params.problems.values():
        assert set(params.domains[problem.target].views) == {"original", "zeros", "rand"}


def test_a_source_only_domain_has_the_original_alone(params_of):
    assert params_of("visda").domains["visda_train"].views == ("original",)


@pytest.mark.parametrize("dataset", TABLE)
def test_names_are_as_people_say_them(dataset, params_of):
    params = params_of(dataset)
    names = list(params.datasets[dataset].class_names.values())
    assert len(set(names)) == len(names)
    for name in names:
        assert "_" not in name
        assert name == " ".join(name.split())


def test_prompts_read_well(params_of):
    params = params_of("domainnet")
    names = params.datasets["domainnet"].class_names
    clipart = params.domains["domainnet_clipart"].templates
    assert prompts(names["The_Eiffel_Tower"], clipart)[0] == "a clipart of the Eiffel Tower"
    assert prompts(names["aircraft_carrier"], clipart)[0] == "a clipart of an aircraft carrier"
    assert prompts(names["scissors"], clipart)[0] == "a clipart of a pair of scissors"


@pytest.mark.parametrize("suite", SUITES)
def test_weights_folders_explain_themselves(suite, params_of):
    for model in params_of(suite).models.values():
        place = ROOT / model.origin
        if model.library != "imported":
            assert list(place.glob("*.safetensors")) or (place / "README.md").is_file()


def test_the_default_suite_is_what_params_yaml_has():
    plain = YAML(typ="safe", pure=True)
    suite = plain.load(ROOT / "suites/digits.yaml")
    params = plain.load(ROOT / "params.yaml")
    assert suite == {key: params[key] for key in suite}


def test_the_template_is_short():
    lines = (ROOT / "suites/template.yaml").read_text().splitlines()
    assert len(lines) < 50
