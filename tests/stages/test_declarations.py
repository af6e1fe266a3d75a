"""Check that dvc.yaml agrees with the stages' declarations, and that `code` records all hidden dependencies."""

import shutil
from pathlib import Path

import pytest
from ruamel.yaml import YAML
from threadpoolctl import threadpool_info, threadpool_limits

from pipeline import code_fingerprints, paths
from pipeline.code_fingerprints import fingerprints
from pipeline.config.params import load_params
from pipeline.config.settings import Method, RandomFourierFeatures, Settings
from pipeline.stage import TRACKED_SECTIONS, DeclaredParams, entries_of, find_stage, main, stage, stage_names
from pipeline.stages import code
from small_project import ROOT

STAGES = YAML(typ="safe", pure=True).load((ROOT / "dvc.yaml").read_text())["stages"]
BODIES = [stage.get("do", stage) for stage in STAGES.values()]
GRAPH = [(body["cmd"].split()[3], body) for body in BODIES]  # python -m pipeline.stages NAME
SUITE = set(YAML(typ="safe", pure=True).load((ROOT / "suite.yaml").read_text()))


def sections_in_graph(body: dict) -> set[str]:
    """Return the sections of params.yaml and suite.yaml that dvc.yaml lists for a stage."""
    sections = set()
    for entry in body.get("params", []):
        keys = entry["suite.yaml"] if isinstance(entry, dict) else [entry]
        assert all((key.split(".")[0] in SUITE) == isinstance(entry, dict) for key in keys)
        sections |= {key.split(".")[0] for key in keys}
    return sections


def test_stages_of_the_graph_are_the_modules_of_the_package():
    assert sorted({name for name, _ in GRAPH}) == stage_names()


@pytest.mark.parametrize(("name", "body"), GRAPH)
def test_the_graph_runs_a_stage_as_declared(name, body):
    """The graph lists its keys, its file of cache/code, and the sections it reads that are not in its settings."""
    declaration = find_stage(name)
    python, module, stages, _, *keys = body["cmd"].split()
    assert (python, module, stages) == ("python", "-m", "pipeline.stages")
    assert len(keys) == len(declaration.per)
    sections = set(declaration.reads) - {"language", "vision"}
    assert sections_in_graph(body) == (sections & set(TRACKED_SECTIONS) if declaration.settings else sections)
    if name != "code":
        code_files = [dep for dep in body["deps"] if str(dep).startswith("cache/code")]
        assert code_files == [paths.stage_code(name, *keys if declaration.settings else ()).as_posix()]


@pytest.mark.parametrize(("name", "body"), GRAPH)
@pytest.mark.parametrize("model", ["language", "vision"])
def test_a_model_that_a_stage_reads_is_in_a_path_or_in_its_settings(name, body, model):
    """Otherwise the stage would not run again for another model."""
    declaration = find_stage(name)
    if model in declaration.reads and f"${{{model}}}" not in " ".join(body["deps"]):
        params = load_params(ROOT)
        keys = [next(iter(entries_of(params, section))) for section in declaration.per]
        settings = declaration.settings or (lambda *_: None)
        assert settings(params, *keys) != settings(params.model_copy(update={model: "other"}), *keys)


@pytest.mark.parametrize("swept", ["D", "sigma"])
def test_a_sweep_depends_on_every_key_of_rff_except_its_own(swept):
    tracked = {key for key in STAGES[f"sensitivity_{swept}"]["do"]["params"] if key.startswith("rff")}
    assert tracked == {f"rff.{key}" for key in RandomFourierFeatures.model_fields if key != swept}


def test_code_runs_after_a_change_of_any_section_that_dvc_does_not_track_by_name():
    """`settings` of a stage may read any section, and `code` writes its result to the stage's file."""
    assert set(code.code.reads) == set(Settings.model_fields) - {*TRACKED_SECTIONS, "runtime"}


def test_reading_an_undeclared_section_raises():
    params = DeclaredParams(load_params(ROOT), ["rff"])
    assert params.rff.D > 0
    with pytest.raises(AttributeError, match="method"):
        params.method  # noqa: B018


def test_an_unknown_stage_suggests_a_name(refused):
    assert "did you mean 'embed'" in refused(main, "emebd")


def test_costly_stages_depend_on_a_version_instead_of_code(monkeypatch):
    monkeypatch.chdir(ROOT)
    for name in ("generate", "manifest", "order", "tasks", "model", "embed", "prompts"):
        assert set(code.dependencies(find_stage(name))) == {"version", "defaults"}


def test_a_fingerprint_is_the_same_on_every_version_of_python():
    """Teammates share results, but `ast.dump` differs between 3.11, 3.12 and 3.13 in empty fields."""
    source = "class A:\n    def f(self, x: int = 1) -> str:\n        return f'{x!r}' if x else None\n"
    assert code_fingerprints.fingerprint(source)[:16] == "aa93d18e45395203"


def test_a_stage_runs_with_one_blas_thread(monkeypatch, capsys):
    def count(_context):
        return str({pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"})

    monkeypatch.chdir(ROOT)
    monkeypatch.setattr("pipeline.stage.find_stage", lambda _name: stage()(count))
    with threadpool_limits(limits=2):
        assert main(["count"]) == 0
    assert capsys.readouterr().out == "count: {1}\n"


@pytest.mark.parametrize("name", ["source", "adapt", "step", "evaluate", "compare", "probe", "prompts"])
def test_fingerprints_include_indirect_imports_and_methods_found_by_name(name):
    files = set(fingerprints(name))
    uses_problems = name not in ("probe", "prompts")
    assert {f"pipeline/stages/{name}.py"} == {file for file in files if file.startswith("pipeline/stages/")}
    for file in ("problem/problem.py", "extraction/device_statistics.py", "extraction/executor.py"):
        assert (f"pipeline/{file}" in files) == uses_problems, file
    assert not {"pipeline/extraction/cluster.py", "pipeline/errors.py"} & files  # these change no number
    assert ("pipeline/comparison/methods/ranpac.py" in files) == (name == "compare")


def test_fingerprints_of_the_report_include_its_templates_and_assets():
    report, tables = map(fingerprints, ("report", "tables"))
    assert {"pipeline/report/published.csv", "pipeline/report/page/page.py"} <= set(report)
    for folder in ("templates/charts", "assets"):
        assert any(name.startswith(f"pipeline/report/page/{folder}/") for name in report)
    assert {"pipeline/report/published.csv", "pipeline/report/templates/table.md"} <= set(tables)
    assert not [name for name in tables if "/page/" in name and not name.endswith(".py")]


@pytest.fixture
def write_code_files(tmp_path, monkeypatch):
    """Return a function that runs `code` in a folder without the package and returns {stage: content of its file}."""
    for name in ("params.yaml", "suite.yaml"):
        shutil.copy(ROOT / name, tmp_path)
    monkeypatch.chdir(tmp_path)

    def run():
        code_fingerprints._files_used.cache_clear()
        assert main(["code"]) == 0
        return {file.stem: file.read_bytes() for file in Path("cache/code").glob("*.json")}

    return run


def test_code_writes_a_file_per_stage_with_all_defaults_and_creates_result_folders(write_code_files, monkeypatch):
    before = write_code_files()
    assert {"source", "tables", "embed-uci-vit", "evaluate-mnist-uci"} <= set(before)
    assert {file.split("-")[0] for file in before} == set(stage_names()) - {"code"}
    assert Path("results/digits/problems/README.md").is_file()
    assert Path("results/digits/evaluations/README.md").is_file()
    assert "stored_as" not in (ROOT / "suite.yaml").read_text()
    assert b'"stored_as": "float16"' in before["embed-uci-vit"]  # settings include default values
    monkeypatch.setattr(Method.model_fields["variant"], "default", "paper")
    assert write_code_files()["source"] != before["source"]


def test_a_changed_setting_changes_only_the_files_of_stages_that_read_it(write_code_files):
    suite, params = Path("suite.yaml"), Path("params.yaml")
    head, _, tail = suite.read_text().rpartition("[original, zeros, rand]")  # of the domain `print`
    suite.write_text(f"{head}[original, zeros]{tail}")
    first = write_code_files()
    # a view or setting that a domain does not use causes no extraction
    suite.write_text(suite.read_text().replace("    library:", "    views: [rand, zeros, original]\n    library:"))
    params.write_text(params.read_text().replace("noise: matched", "noise: unit"))
    second = write_code_files()
    changed = {name for name in first if second[name] != first[name]}
    costly = {name for name in changed if name.startswith(("embed", "model", "prompts"))}
    assert costly == {f"embed-{domain}-{model}" for domain in ("mnist", "uci") for model in ("vit", "clip")}
    params.write_text(params.read_text().replace("unreadable: stop", "unreadable: skip"))
    third = write_code_files()
    assert {name.split("-")[0] for name in first if third[name] != second[name]} == {"manifest", "report"}
