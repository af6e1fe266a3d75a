"""params.yaml: valid as shipped; every mistake is named by its key."""

import copy
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.errors import ParamsError
from pipeline.params import Params, load_params, parse_params, read_yaml

ROOT = Path(__file__).parents[1]
SHIPPED = read_yaml(ROOT / "params.yaml")


def changed(*path, value):
    raw = copy.deepcopy(SHIPPED)
    here = raw
    for key in path[:-1]:
        here = here[key]
    here[path[-1]] = value
    return raw


def test_what_is_shipped_is_valid():
    params = load_params(ROOT / "params.yaml")
    assert params.suite == "digits"
    assert params.rff.sigma == 1e-4  # YAML 1.1 would read 1e-4 as text


def test_a_private_domain_cannot_come_from_a_list_that_dvc_caches():
    raw = changed("lists", value={"train": {"file": "l.txt", "domain": "uci", "root": "data"}})
    raw["data"]["private"] = ["mnist"]
    assert parse_params(raw).data.private == ("mnist",)
    raw["data"]["private"] = ["uci"]
    with pytest.raises(ParamsError, match=r"data\.private: 'uci' comes from the list 'train'"):
        parse_params(raw)


def test_class_names_may_be_a_block_of_text():
    names = SHIPPED["datasets"]["digits"]["class_names"]
    text = "".join(f'"{folder}": {name}  # said so\n' for folder, name in names.items())
    params = parse_params(changed("datasets", "digits", "class_names", value=text))
    assert params == parse_params(SHIPPED)
    assert list(params.datasets["digits"].class_names) == list(names)
    empty = parse_params(changed("datasets", "digits", "class_names", value=""))
    assert empty.datasets["digits"].class_names == {}


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        (("problems", "a > b"), {"source": "uci", "target": "mnist"}, "problems.a > b: "),
        (
            ("generated", "uci", "folder"),
            "x",
            "generated.uci.folder: differs from domains.uci.images",
        ),
        (
            ("datasets", "digits", "class_names"),
            "a: b\n c: : d\n",
            "datasets.digits.class_names: input should be an object, not 'a: b",
        ),
        (
            ("datasets", "digits", "class_names"),
            "just words",
            "datasets.digits.class_names: input should be an object, not 'just words'",
        ),
        (("rff", "sigmaa"), 1, "rff.sigmaa: unknown key; did you mean 'sigma'?"),
        (("rff", "sigma"), 0, "rff.sigma: input should be greater than 0, not 0"),
        (("rff", "sigma"), -1e-4, "rff.sigma: input should be greater than 0"),
        (("rff", "sigma"), float("nan"), "rff.sigma: input should be a finite number"),
        (("rff", "sigma"), float("inf"), "rff.sigma: input should be a finite number"),
        (("rff", "D"), 0, "rff.D: input should be greater than or equal to 1"),
        (("rff", "D"), 10**6, "rff.D: input should be less than or equal to 100000"),
        (("rff", "D"), 10.5, "rff.D: input should be a valid integer"),
        (("rff", "D"), True, "rff.D: input should be a valid integer"),
        (
            ("rff", "convention"),
            "gama",
            "rff.convention: input should be 'gamma', 'bandwidth', 'spread' or 'median'",
        ),
        (("views", "noise"), "machted", "views.noise: input should be 'unit' or 'matched'"),
        (("views", "noise"), -1, "views.noise: input should be greater than or equal to 0"),
        (
            ("views", "wavelet"),
            "harr",
            "views.wavelet: no discrete wavelet 'harr'; did you mean 'haar'?",
        ),
        (("views", "level"), 0, "views.level: input should be greater than or equal to 1"),
        (
            ("refinement", "steps"),
            -1,
            "refinement.steps: input should be greater than or equal to 0",
        ),
        (
            ("refinement", "steps"),
            1001,
            "refinement.steps: input should be less than or equal to 1000",
        ),
        (("refinement", "step_size"), 0, "refinement.step_size: input should be greater than 0"),
        (("refinement", "radius"), -0.1, "refinement.radius: input should be greater than 0"),
        (("refinement", "step"), 1, "refinement.step: unknown key; did you mean 'steps'?"),
        (("views", "levels"), 2, "views.levels: unknown key; did you mean 'level'?"),
        (("models", "vit", "orgin"), "x", "models.vit.orgin: unknown key; did you mean 'origin'?"),
        (
            ("models", "vit", "library"),
            "tim",
            "models.vit.library: input should be 'timm', 'open_clip' or 'imported'",
        ),
        (
            ("models", "vit", "quick_gelu"),
            True,
            "models.vit.quick_gelu: is for library open_clip, not timm",
        ),
        (
            ("models", "clip", "kwargs"),
            {"a": 1},
            "models.clip.kwargs: is for library timm, not open_clip",
        ),
        (
            ("models", "vit", "precision"),
            "float8",
            "models.vit.precision: input should be 'float32', 'bfloat16' or",
        ),
        (("models",), {}, "models: dictionary should have at least 1 item"),
        (
            ("domains", "uci", "dataset"),
            "digit",
            "domains.uci.dataset: 'digit' is not in datasets; did you mean 'digits'?",
        ),
        (("domains", "uci", "views"), ["zeros"], "domains.uci.views: must include 'original'"),
        (
            ("domains", "uci", "views"),
            ["original", "zero"],
            "domains.uci.views.1: input should be 'original', 'zeros' or 'rand'",
        ),
        (
            ("domains", "uci", "views"),
            ["original"] * 2,
            "domains.uci.views: a view is listed twice",
        ),
        (
            ("domains", "uci", "templates"),
            ["a digit"],
            "domains.uci.templates: 'a digit' must contain {} exactly once",
        ),
        (("domains", "u-ci"), SHIPPED["domains"]["uci"], "domains.u-ci: "),
        (
            ("lists", "l"),
            {"file": "f", "domain": "ucy", "root": "."},
            "lists.l.domain: 'ucy' is not in domains",
        ),
        (("generated", "emnist"), {"folder": "f"}, "generated.emnist: 'emnist' is not in domains"),
        (("language",), "vit", "language: 'vit' is a timm model; it has no text tower"),
        (("vision",), "vitt", "vision: 'vitt' is not in models; did you mean 'vit'?"),
        (
            ("problems", "p"),
            {"source": "uci", "target": "uci"},
            "problems.p: source and target are both 'uci'",
        ),
        (
            ("problems", "p"),
            {"source": "uci", "target": "usps"},
            "problems.p.target: 'usps' is not in domains",
        ),
        (("data", "seeds"), [1, 1], "data.seeds: the same seed is listed twice"),
        (("data", "seeds"), [], "data.seeds: "),
        (("data", "test_fraction"), 1, "data.test_fraction: input should be less than 1"),
        (
            ("data", "private"),
            ["ucj"],
            "data.private: 'ucj' is not in domains; did you mean 'uci'?",
        ),
        (("data", "unreadable"), "ignore", "data.unreadable: input should be 'stop' or 'skip'"),
        (("runtime", "device"), "gpu", "runtime.device: "),
        (
            ("domains", "real-world"),
            {},
            "domains.real-world: a name has letters, digits and _ only",
        ),
        (("problems", "a b"), {}, "problems.a b: a name has letters, digits, _ and - only"),
        (("a [b]",), {}, "a [b]: unknown key"),
        (("list[0]",), {}, "list[0]: unknown key"),
        (("rff", "D[0]"), 1, "rff.D[0]: unknown key"),
        (("runtim",), {}, "runtim: unknown key; did you mean 'runtime'?"),
        (
            ("datasets", "digits", "classes_per_task"),
            "two",
            "datasets.digits.classes_per_task: input should be a valid integer",
        ),
    ],
)
def test_a_mistake_is_named_by_its_key(path, value, message):
    with pytest.raises(ParamsError) as error:
        parse_params(changed(*path, value=value))
    assert any(
        line.startswith(f"params.yaml: {message}") for line in str(error.value).splitlines()
    ), error.value


@pytest.mark.parametrize("section", sorted(set(SHIPPED) - {"runtime"}))
def test_a_missing_section_is_named(section):
    raw = {key: value for key, value in SHIPPED.items() if key != section}
    with pytest.raises(ParamsError, match=f"params.yaml: {section}: missing"):
        parse_params(raw)


def test_files_that_are_not_params(tmp_path):
    with pytest.raises(ParamsError, match="no such file; run this in the root of the repository"):
        load_params(tmp_path / "params.yaml")
    bad = tmp_path / "params.yaml"
    for text, message in (
        ("a: [", "not valid YAML"),
        ("a: 1\na: 2\n", "not valid YAML.*duplicate key"),
        ("- 1\n", "must be a mapping of sections, not list"),
        ("", "must be a mapping of sections, not NoneType"),
        ("!!python/object/apply:os.system ['true']", "not valid YAML"),
    ):
        bad.write_text(text)
        with pytest.raises(ParamsError, match=message) as error:
            load_params(bad)
        assert len(str(error.value).splitlines()) == 1
    bad.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(ParamsError, match="not valid YAML"):
        load_params(bad)


json_like = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3)
    ),
    max_leaves=6,
)


@settings(max_examples=300, deadline=None)
@given(section=st.sampled_from(sorted(Params.model_fields)), value=json_like)
def test_anything_in_a_section_is_valid_or_a_params_error(section, value):
    try:
        parse_params(changed(section, value=value))
        lines = []
    except ParamsError as error:  # any other exception fails the test
        lines = str(error).splitlines()
    assert all(line.startswith("params.yaml: ") for line in lines)


def test_both_sides_of_a_problem_have_the_same_tasks():
    raw = copy.deepcopy(SHIPPED)
    raw["datasets"]["halves"] = raw["datasets"]["digits"] | {"classes_per_task": 5}
    raw["domains"]["uci"]["dataset"] = "halves"
    with pytest.raises(ParamsError) as error:
        parse_params(raw)
    wanted = "params.yaml: problems.mnist-uci: 2 classes per task in 'mnist', 5 in 'uci'; make classes_per_task"
    assert wanted in str(error.value)
