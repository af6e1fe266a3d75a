import shutil
from pathlib import Path

import pytest

from pipeline.cli.use import run, use
from pipeline.errors import ParamsError, exits_cleanly
from pipeline.params import load_params, read_yaml

ROOT = Path(__file__).parents[2]


@pytest.fixture
def params(tmp_path):
    shutil.copytree(ROOT / "suites", tmp_path / "suites")
    shutil.copy(ROOT / "params.yaml", tmp_path)
    return tmp_path / "params.yaml"


def test_there_and_back_gives_the_same_bytes(params):
    before = params.read_bytes()
    for suite in ("office31", "officehome", "visda", "digits"):
        use(suite, params)
    assert params.read_bytes() == before


@pytest.mark.parametrize("suite", ["digits", "officehome"])
def test_twice_is_once(params, suite):
    use(suite, params)
    once = params.read_bytes()
    assert "already" in use(suite, params)[0]
    assert params.read_bytes() == once


def test_other_sections_and_their_comments_stay(params):
    text = params.read_text().replace("unreadable: stop ", "unreadable: skip ")
    text = text.replace("\nviews: ", "\n# about my views\nviews: ").replace(
        "level: 1", "level: 2  # mine"
    )
    params.write_text(text + "\n# the end\n")
    before = read_yaml(params)
    use("office31", params)
    after, text = read_yaml(params), params.read_text()
    for section in ("data", "views", "runtime"):
        assert after[section] == before[section]
    for comment in (
        "# about my views\nviews:",
        "level: 2  # mine",
        "# one disjoint",
        "\n# the end\n",
    ):
        assert comment in text
    assert list(after) == list(before)


def test_it_replaces_everything_of_the_old_suite(params):
    use("office31", params)
    after = load_params(params)
    assert set(after.datasets) == {"office31"}
    assert set(after.domains) == {"amazon", "dslr", "webcam"}
    assert not after.generated
    assert after.models["clip"].pretrained == "openai"
    assert after.rff.D == 6000


@pytest.mark.parametrize(
    "folder", ["officehome/Real World", "officehome/Real_World", "OfficeHome/RealWorld"]
)
def test_of_several_usual_places_the_one_on_disk_is_written(params, folder):
    (params.parent / "data" / folder / "Bed").mkdir(parents=True)
    messages = use("officehome", params)
    assert load_params(params).domains["real_world"].images == f"data/{folder}"
    assert not any("Real" in message for message in messages)
    assert any(
        message.startswith("missing: data/officehome/Art (domains.art.images): unpack")
        for message in messages
    )


def test_none_on_disk_writes_the_first(params):
    use("officehome", params)
    assert load_params(params).domains["real_world"].images == "data/officehome/Real World"


def test_a_list_of_places_in_block_form_with_odd_names(params):
    text = (params.parent / "suites/template.yaml").read_text()
    text = text.replace(
        "    images: data/mine/drawings\n",
        "    images:   # usual places\n      - data/mine/drawings\n      - 'data/it''s: #1'\n",
    )
    (params.parent / "suites/mine.yaml").write_text(text)
    (params.parent / "data/it's: #1").mkdir(parents=True)
    use("mine", params)
    assert load_params(params).domains["drawings"].images == "data/it's: #1"


def test_what_is_missing_is_told_with_its_remedy(params):
    shutil.copytree(
        ROOT / "weights/clip_vit_b32_openai", params.parent / "weights/clip_vit_b32_openai"
    )
    messages = "\n".join(use("visda", params))
    assert "missing: data/visda/train (domains.visda_train.images): unpack" in messages
    assert "note: weights/clip_vit_b32_openai holds no weights (models.clip.origin)" in messages
    assert (
        "missing: weights/vit_base_patch16_224 (models.vit.origin): put the file there" in messages
    )
    assert "rff: the suite's own values" in messages


def test_generated_domains_are_not_missing(params):
    assert not any("data/digits" in message for message in use("digits", params))


def test_a_missing_list_is_told(params):
    text = (params.parent / "suites/template.yaml").read_text()
    text = text.replace("lists: {} ", "lists: {x: {file: gone.txt, domain: photos, root: data}} ")
    (params.parent / "suites/mine.yaml").write_text(text)
    assert any("missing: gone.txt (lists.x.file)" in message for message in use("mine", params))


def test_a_suite_by_its_path(params, tmp_path):
    file = tmp_path / "elsewhere.yaml"
    file.write_text((ROOT / "suites/visda.yaml").read_text())
    use(str(file), params)
    assert load_params(params).suite == "visda"


def test_sections_that_were_not_there_are_put_in(params):
    text = params.read_text()
    start, end = text.index("lists:"), text.index("domains:")
    params.write_text(text[:start] + text[end:])
    use("visda", params)
    keys = list(read_yaml(params))
    assert keys[:5] == ["suite", "datasets", "generated", "lists", "domains"]


def test_sections_absent_from_a_suite_are_emptied(params):
    text = (params.parent / "suites/template.yaml").read_text()
    (params.parent / "suites/mine.yaml").write_text(text.replace("generated: {}\n", ""))
    use("mine", params)
    assert load_params(params).generated == {}


def test_an_unknown_suite_names_the_nearest(params):
    with pytest.raises(
        ParamsError, match=r"no suite 'ofice31' in .*suites; did you mean 'office31'"
    ):
        use("ofice31", params)
    with pytest.raises(ParamsError, match=r"gone.yaml: no such suite file"):
        use("gone.yaml", params)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("problems:", "problem:", "problem: not a section of a suite; did you mean 'problems'"),
        ("vision: vit\n", "", "vision: missing"),
        ("vision: vit\n", "vision: vti\n", "vision: 'vti' is not in models; did you mean 'vit'"),
        ("dataset: mine", "dataset: [", "not valid YAML"),
        ("classes_per_task: 2", "classes_per_task: two", "datasets.mine.classes_per_task: "),
        ("suite: template", "data: {}\nsuite: template", "data: not a section of a suite"),
    ],
)
def test_a_bad_suite_changes_nothing(params, old, new, message):
    text = (params.parent / "suites/template.yaml").read_text()
    assert old in text
    (params.parent / "suites/mine.yaml").write_text(text.replace(old, new))
    before = params.read_bytes()
    with pytest.raises(ParamsError, match=message) as caught:
        use("mine", params)
    assert "mine.yaml" in str(caught.value)
    assert params.read_bytes() == before
    assert sorted(file.name for file in params.parent.iterdir()) == ["params.yaml", "suites"]


def test_bad_params_are_named(params):
    params.write_text("[1, 2]\n")
    with pytest.raises(ParamsError, match=r"params.yaml: must be a mapping"):
        use("digits", params)
    params.unlink()
    with pytest.raises(ParamsError, match=r"params.yaml: no such file"):
        use("digits", params)


def test_the_command(params, monkeypatch, capsys):
    from argparse import Namespace

    monkeypatch.chdir(params.parent)
    assert exits_cleanly(run)(Namespace(suite="office31")) == 0
    assert "params.yaml: suite office31: 3 domains, 6 problems" in capsys.readouterr().out
    assert exits_cleanly(run)(Namespace(suite="office32")) == 2
    assert capsys.readouterr().err.startswith("referee: error: there is no suite 'office32'")


def test_image_lists_of_another_suite_do_not_stay_behind(params):
    lists = params.parent / "cache" / "lists"
    lists.mkdir(parents=True)
    for name in ("own.txt", "other.txt", "README.md"):
        (lists / name).write_text("x")
    suite = params.parent / "suites" / "listed.yaml"
    text = (ROOT / "suites" / "visda.yaml").read_text()
    own = "lists: {own: {file: l.txt, domain: visda_train, root: .}}"
    suite.write_text(text.replace("lists: {}", own).replace("suite: visda", "suite: listed"))
    use("listed", params)
    assert sorted(file.name for file in lists.iterdir()) == ["README.md", "own.txt"]
    use("office31", params)
    assert [file.name for file in lists.iterdir()] == ["README.md"]


def test_results_of_another_suite_do_not_stay_behind(params):
    """`report` and `tables` depend on these folders whole, and `dvc metrics show` lists what is in them."""
    results = params.parent / "results"
    for name in ("metrics/{}.json", "methods/{}.json", "comparison/{}.json", "tables/{}/tasks.csv"):
        for problem in ("mnist-uci", "elsewhere"):
            file = results / name.format(problem)
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text("{}")
    use("digits", params)
    assert sorted(str(f.relative_to(results)) for f in results.rglob("*") if f.is_file()) == [
        "comparison/mnist-uci.json",
        "methods/mnist-uci.json",
        "metrics/mnist-uci.json",
        "tables/mnist-uci/tasks.csv",
    ]
