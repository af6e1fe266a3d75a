import importlib
import pkgutil
import re

import pytest

from pipeline.comparison import methods
from pipeline.comparison.problem import ComparedMethod
from pipeline.comparison.registry import PSEUDO, compared_method
from pipeline.errors import ParamsError
from pipeline.method.variants import VARIANTS

FILES = [info.name for info in pkgutil.iter_modules(methods.__path__)]


def test_the_peers_are_there():
    assert {"nearest_class_mean", "streaming_lda", "ranpac", "fecam"} <= set(FILES)


@pytest.mark.parametrize("file", FILES)
def test_every_file_exports_methods_whose_names_lead_back_to_it(file):
    exported = importlib.import_module(f"{methods.__name__}.{file}").METHODS
    assert file.replace("_", "-") in exported
    for name, method in exported.items():
        assert name.removesuffix(PSEUDO).replace("-", "_") == file
        assert name not in VARIANTS
        assert isinstance(method, ComparedMethod)
        assert compared_method(name) is method
    titles = [method.title for method in exported.values()]
    assert len(set(titles)) == len(titles)


@pytest.mark.parametrize("name", VARIANTS)
def test_every_variant_is_a_compared_method(name):
    assert compared_method(name).title


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("streeming-lda", "no method 'streeming-lda'; did you mean 'streaming-lda'?"),
        ("calibratd", "no method 'calibratd'; did you mean 'calibrated'?"),
        ("ranpac-psuedo", "no method 'ranpac-psuedo'; did you mean 'ranpac-pseudo'?"),
        ("zzz", "no method 'zzz'; valid: calibrated, "),
    ],
)
def test_an_unknown_name_is_one_line_with_a_suggestion(name, hint):
    with pytest.raises(
        ParamsError, match="^" + re.escape(f"params.yaml: compare.methods: {hint}")
    ) as caught:
        compared_method(name)
    assert "\n" not in str(caught.value)


def test_a_file_without_the_name_is_named_itself():
    with pytest.raises(ParamsError) as caught:
        compared_method("streaming_lda")  # the file's name, not the method's
    where = "pipeline/comparison/methods/streaming_lda.py has no 'streaming_lda' in METHODS"
    assert (
        str(caught.value) == f"params.yaml: compare.methods: {where}; did you mean 'streaming-lda'?"
    )
