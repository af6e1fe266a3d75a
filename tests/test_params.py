"""params.yaml and suite.yaml: valid as shipped, and every mistake is one line that names the file and the key."""

import copy
from pathlib import Path

import pytest
from dvc.utils.hydra import apply_overrides

from pipeline.config.params import load_params, parse_params, section_defaults
from pipeline.config.suite import Suite
from pipeline.errors import ParamsError
from pipeline.validated_yaml import read_yaml

ROOT = Path(__file__).parents[1]
PARAMS, SUITE = read_yaml(ROOT / "params.yaml"), read_yaml(ROOT / "suite.yaml")


def changed(values):
    """Return the content of both files with changed values, given by dotted key."""
    files = copy.deepcopy(PARAMS), copy.deepcopy(SUITE)
    for path, value in values.items():
        section, *keys = path.split(".")
        parent, key = files[section in Suite.model_fields], section
        for child in keys:
            parent, key = parent[key], child
        parent[key] = value
    return files


def error_lines(params, suite):
    with pytest.raises(ParamsError) as error:
        parse_params(params, suite)
    return str(error.value).splitlines()


def test_the_shipped_files_are_valid():
    params = load_params(ROOT)
    assert params.suite == "digits"
    assert params.rff.sigma == 1e-4  # YAML 1.1 would read 1e-4 as text
    assert params == parse_params(PARAMS, SUITE)


def test_dvc_overrides_change_nothing_else_in_params_yaml(shipped):
    file, before = shipped / "params.yaml", (ROOT / "params.yaml").read_text()
    apply_overrides(file, ["rff.D=2000"])
    assert file.read_text() == before.replace("D: 1000", "D: 2000")  # a blank line after a list would get lost
    apply_overrides(file, ["rff.D=1000", "compare.methods=[calibrated]"])
    start, end = before.index("  - clip_zero_shot\n"), before.index("sensitivity:")
    assert file.read_text() == before[:start] + "  - calibrated\n" + before[end:]


def test_class_names_may_be_a_block_of_text():
    names = SUITE["datasets"]["digits"]["class_names"]
    text = "".join(f'"{folder}": {name}  # a comment\n' for folder, name in names.items())
    params = parse_params(*changed({"datasets.digits.class_names": text}))
    assert params == parse_params(PARAMS, SUITE)
    empty = parse_params(*changed({"datasets.digits.class_names": ""}))
    assert empty.datasets["digits"].class_names == {}


@pytest.mark.parametrize(
    ("path", "value", "remedy"),
    [
        *(("rff.D", value, "") for value in (0, 10**6, 10.5, True)),
        *(("rff.sigma", value, "") for value in (0, float("nan"), float("inf"))),
        ("rff.sigmaa", 1, "did you mean 'sigma'?"),
        *(("rff.D[0]", 1, ""), ("rff.bases", 1, "")),
        ("rff.convention", "gama", "'gamma', 'bandwidth', 'spread' or 'median'"),
        *(("views.noise", "machted", "'unit' or 'matched'"), ("views.noise", -1, "")),
        ("views.wavelet", "harr", "did you mean 'haar'?"),
        ("refinement.steps", 1001, "1000"),
        ("models.vit.orgin", "x", "did you mean 'origin'?"),
        ("models.vit.library", "tim", "'timm', 'open_clip' or 'imported'"),
        ("models.vit.quick_gelu", True, "open_clip"),
        ("models.clip.kwargs", {"a": 1}, "timm"),
        ("models", {}, "at least 1"),
        ("domains.uci.dataset", "digit", "did you mean 'digits'?"),
        ("domains.uci.views", ["zeros"], "'original'"),
        *(("domains.uci.views", ["original"] * 2, ""), ("domains.uci.images", ["a", "b"], "")),
        ("domains.uci.templates", ["a digit"], "{}"),
        ("domains.u-ci", SUITE["domains"]["uci"], "letters, digits and _"),
        ("datasets.digits.class_names", "just words", ""),
        ("datasets.digits.classes_per_task", "two", ""),
        ("generated.emnist", {"folder": "f"}, "domains"),
        ("generated.uci.folder", "x", "domains.uci.images"),
        *(("language", "vit", "'vit'"), ("vision", "vitt", "did you mean 'vit'?")),
        ("joined", [{"name": "both", "first": "vit", "second": "resnet"}], "joined.0.second"),
        ("joined", [{"name": "vit", "first": "vit", "second": "clip"}], "joined.0.name"),
        ("joined", [{"name": "both", "first": "both", "second": "vit"}], "joined.0.first"),
        ("problems.mnist-uci.label_space", "opne", ""),
        ("problems.p", {"source": "uci", "target": "uci"}, "'uci'"),
        ("problems.p", {"source": "uci", "target": "usps"}, "target: 'usps'"),
        *(("problems.a b", {}, "letters, digits"), ("suite", "../x", "letters, digits")),
        ("published", {"rff": {"d": 1}}, "rff"),
        *(("data.seeds", [1, 1], ""), ("data.test_fraction", 1, "")),
        ("data.private", ["ucj"], "did you mean 'uci'?"),
        *(("runtime.device", "gpu", ""), ("runtim", {}, "did you mean 'runtime'?"), ("a [b]", {}, "")),
    ],
)  # fmt: skip
def test_a_mistake_names_its_file_and_key(path, value, remedy):
    file = "suite.yaml" if path.split(".")[0] in Suite.model_fields else "params.yaml"
    lines = error_lines(*changed({path: value}))
    assert any(line.startswith(f"{file}: {path}") and remedy in line for line in lines), lines


@pytest.mark.parametrize(
    ("lists", "words"),
    [
        ({"source_private": ["bike"], "target_private": ["bike"]}, ("'bike'", "twice")),
        ({"target_private": ["mugg"]}, ("'mugg'", "'mug'")),
        ({"source_private": ["bike"], "target_private": ["mug", "pen"]}, ("share no class",)),
        ({"shared": 0, "source_private": 3}, ("share no class",)),
        ({"shared": 2, "source_private": 2}, ("2 more", "1 of 3")),
        ({"shared": ["bike"], "target_private": 1}, ("nobody has pen",)),
    ],
)
def test_a_bad_label_space_is_one_line(lists, words):
    names = {name: name for name in ("bike", "mug", "pen")}
    dataset = {"classes_per_task": 1, "class_names": names, "label_spaces": {"mine": lists}}
    (line,) = error_lines(*changed({"datasets.digits": dataset}))
    assert line.startswith("suite.yaml: datasets.digits.label_spaces.mine")
    assert all(word in line for word in words)


@pytest.mark.parametrize(
    ("values", "starts"),
    [
        (
            {"joined": [{"name": "both", "first": "vit", "second": "other"}], "models.other": SUITE["models"]["vit"]}
            | {"vision": "both", "refinement.steps": 1},
            ["params.yaml: refinement: "],
        ),
        (
            {"datasets.halves": {"classes_per_task": 5, "class_names": {}}, "domains.uci.dataset": "halves"},
            ["suite.yaml: problems.mnist-uci: classes_per_task is 2 in 'mnist', 5 in 'uci'"],
        ),
        ({"rff.D": 0, "vision": "vitt"}, ["params.yaml: rff.D: ", "suite.yaml: vision: "]),
    ],
)
def test_inconsistent_values_and_mistakes_in_both_files_have_a_line_each(values, starts):
    lines = error_lines(*changed(values))
    assert all(line.startswith(start) for line, start in zip(lines, starts, strict=True))


@pytest.mark.parametrize("section", sorted({*PARAMS, *SUITE} - {"runtime", "published"}))
def test_a_missing_section_is_named(section):
    params, suite = copy.deepcopy(PARAMS), copy.deepcopy(SUITE)
    file = "suite.yaml" if suite.pop(section, None) is not None else "params.yaml"
    params.pop(section, None)
    assert any(line.startswith(f"{file}: {section}: missing") for line in error_lines(params, suite))


def test_an_unusable_file_is_one_line_with_the_remedy(shipped):
    params, suite = (shipped / name for name in ("params.yaml", "suite.yaml"))
    texts = {file: file.read_bytes() for file in (params, suite)}

    def assert_refused(message):
        with pytest.raises(ParamsError, match=message) as error:
            load_params()
        assert len(str(error.value).splitlines()) == 1

    for file, section, message in (
        (params, b"\nsteps: {}\n", r"params\.yaml: steps: belong in suite\.yaml"),
        (suite, b"\nrff: {}\n", r"suite\.yaml: rff: belong in params\.yaml"),
    ):
        file.write_bytes(texts[file] + section)
        assert_refused(message)
        file.write_bytes(texts[file])
    for content in (b"a: [", b"a: 1\na: 2\n", b"- 1\n", b"", b"\xff\xfe\x00"):
        params.write_bytes(content)
        assert_refused(r"params\.yaml: ")
    params.write_bytes(texts[params] + texts[suite])  # as before suite.yaml existed
    suite.unlink()
    assert_refused(r"params.yaml: .*domains.*suite.yaml.*referee use")
    params.unlink()
    assert_refused(r"params.yaml: .*root of the repository")


def test_section_defaults_equal_those_of_an_empty_section():
    assert section_defaults("refinement") == parse_params(*changed({"refinement": {}})).refinement.model_dump()
    assert section_defaults("data")["seeds"] == [0]
    assert section_defaults("generated") == {"seed": 0}  # keys with default None are left out
    assert section_defaults("compare") == section_defaults("swept") == {}
