"""DVC does not see imports: every stage depends on digests of the code it may import, and the walk finds all of it."""

import json
import re
from pathlib import Path

import pytest
from ruamel.yaml import YAML

from pipeline.stages import code
from pipeline.stages.code import files_of, stage_modules

ROOT = Path(__file__).parents[1]
STAGES = YAML(typ="safe", pure=True).load((ROOT / "dvc.yaml").read_text())["stages"]


def body(stage: str) -> dict:
    return STAGES[stage].get("do", STAGES[stage])


def module(stage: str) -> str:
    return re.match(r"python -m pipeline\.stages\.(\w+)", body(stage)["cmd"])[1]


@pytest.mark.parametrize("stage", [stage for stage in STAGES if stage != "code"])
def test_a_stage_depends_on_its_own_code(stage):
    of_code = [dep for dep in body(stage)["deps"] if re.search(r"cache/code|\.(py|c|h)$", str(dep))]
    assert of_code == [f"cache/code/{module(stage)}.json"]


def test_the_code_of_every_stage_is_written():
    assert stage_modules(ROOT) == sorted({module(stage) for stage in STAGES} - {"code"})
    assert body("code")["outs"] == [f"cache/code/{name}.json" for name in stage_modules(ROOT)]
    assert body("code")["deps"] == ["pipeline"]


def test_the_walk_sees_imports_inside_functions_and_of_imports():
    assert "pipeline/encoders/clip_encoder.py" in files_of("prompts", ROOT)
    assert "pipeline/method/wavelet_transform.py" in files_of("embed", ROOT)
    assert "pipeline/method/kernel_lda.py" not in files_of("embed", ROOT)


def test_compare_depends_on_whatever_a_method_may_import():
    files = files_of("compare", ROOT)
    assert "pipeline/comparison/methods/ranpac.py" in files  # found by its name
    assert "pipeline/comparison/labelled_tasks.py" in files  # which only methods import
    assert "pipeline/comparison/head_training/exemplars.py" in files
    assert "pipeline/comparison/methods/ranpac.py" not in files_of("adapt", ROOT)


def test_c_counts_where_it_may_be_called():
    compiled = {f"pipeline/encoders/{name}" for name in ("haar_views.c", "processors.h")}
    assert compiled < set(files_of("embed", ROOT))
    assert not compiled & set(files_of("evaluate", ROOT))


@pytest.fixture
def package(tmp_path, monkeypatch):
    """A package of two stages, one of which imports a module in a function, which imports another."""
    files = {
        "stages/one.py": "def main():\n    from pipeline.method import far\n",
        "stages/two.py": "import json\n",
        "stages/helper.py": "",
        "method/far.py": "import pipeline.method.farther\nimport pipeline.errors\n",
        "method/farther.py": "x = 1\n",
        "errors.py": "",
    }
    for name, content in files.items():
        file = tmp_path / "pipeline" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        ends = '\nif __name__ == "__main__":\n    pass\n' if file.stem in ("one", "two") else ""
        file.write_text(content + ends)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def written(package):
    code._imported.cache_clear()
    code._digest.cache_clear()
    assert code.main([]) == 0
    return {file.stem: json.loads(file.read_text()) for file in (package / "cache/code").iterdir()}


def test_a_change_shows_in_the_stages_that_import_it_and_no_others(package):
    before = written(package)
    assert list(before["one"]) == [
        *("pipeline/method/far.py", "pipeline/method/farther.py", "pipeline/stages/one.py"),
    ]
    assert set(before) == {"one", "two"}
    (package / "pipeline" / "method" / "farther.py").write_text("x = 2\n")
    after = written(package)
    assert after["two"] == before["two"]
    changed = [file for file, digest in after["one"].items() if digest != before["one"][file]]
    assert changed == ["pipeline/method/farther.py"]
    (package / "pipeline" / "errors.py").write_text("# a message\n")
    assert written(package) == after
