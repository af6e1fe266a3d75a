from dataclasses import replace

import pytest

from comparison.head_cases import shifted_seed
from comparison.registered_methods import MODULES
from pipeline.comparison import methods
from pipeline.comparison.compared_method import ComparedMethod
from pipeline.comparison.referee_variants import predict_test
from pipeline.comparison.registry import compared_method
from pipeline.errors import InputError, ParamsError
from pipeline.method.variants import CALIBRATED, VARIANTS
from small_project import ROOT


@pytest.mark.parametrize("module", MODULES)
def test_the_registry_finds_every_exported_method_by_its_name(module):
    exported = module.METHODS
    assert exported
    for name, method in exported.items():
        assert name not in VARIANTS
        assert isinstance(method, ComparedMethod)
        assert compared_method(name) is method
    described = (ROOT / "docs/peers.md").read_text()
    absent = [name for name in exported if f"`{name.removesuffix('-pseudo')}`" not in described]
    assert not absent, "describe them in docs/peers.md"
    titles = [method.title for method in exported.values()]
    assert len(set(titles)) == len(titles)


@pytest.mark.parametrize(
    ("name", "suggestion"),
    [
        ("streeming-lda", "streaming-lda"),
        ("calibratd", "calibrated"),
        ("ewc-hed", "ewc-head"),
        ("ranpac-psuedo", "ranpac-pseudo"),
        ("zzz", "calibrated"),
        ("streaming_lda", "streaming-lda"),  # the file's name, not the method's
    ],
)
def test_the_error_for_an_unknown_name_is_one_line_with_the_key_and_a_suggestion(name, suggestion):
    with pytest.raises(ParamsError) as caught:
        compared_method(name)
    message = str(caught.value)
    assert "\n" not in message
    for part in ("params.yaml: compare.methods", repr(name), suggestion):
        assert part in message


def test_a_users_file_hides_no_method_of_another_file(tmp_path, monkeypatch):
    """`ewc.py` matches the name `ewc-head` of head.py, and broken.py cannot be imported."""
    (tmp_path / "ewc.py").write_text("METHODS = {}\n")
    (tmp_path / "broken.py").write_text("import no_such_package\n")
    monkeypatch.setattr(methods, "__path__", [*methods.__path__, str(tmp_path)])
    assert compared_method("ewc-head").title.startswith("EWC")
    with pytest.raises(ParamsError, match="streaming-lda"):
        compared_method("streeming-lda")


@pytest.mark.parametrize("name", ["calibrated", "ranpac-pseudo", "stata-pseudo"])
def test_missing_views_are_named_with_the_remedy(name):
    seed, _ = shifted_seed()

    def without_views(rows):
        return replace(rows, views={"original": rows.views["original"]})

    tasks, test = [without_views(task) for task in seed.target.tasks], without_views(seed.target.test)
    seed = replace(seed, target=replace(seed.target, tasks=tasks, test=test))
    with pytest.raises(InputError, match=r"zeros, rand.*compare\.methods"):
        compared_method(name).run(seed)
    with pytest.raises(InputError, match=r"compare\.methods"):
        predict_test(seed, CALIBRATED, [])
