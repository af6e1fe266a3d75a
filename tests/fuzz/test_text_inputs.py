"""params.yaml, suites and manifests, malformed in every way: our lines or success."""

import copy
import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fuzz.inputs import examples, only_our_errors
from pipeline.cli.use import use
from pipeline.datasets import manifest_files
from pipeline.datasets.image_lists import read_image_list
from pipeline.errors import ParamsError
from pipeline.params import load_params
from pipeline.stages.method_options import method_options
from small_project import ROOT, small_params

FRAGMENTS = [
    *("[", "{", "&a ", "*a", ": ", "\t", "- ", "%", "|\n", "0o9", "\ufeff", "2001-99-99"),
    "!!python/object:os.system ",
]
SUITES = sorted((ROOT / "suites").glob("*.yaml"))
VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.floats(allow_nan=True)
    | st.text(max_size=12)
    | st.sampled_from(["{}", "../..", "/etc/passwd", "1e-4", "nan", "original", "vit", "\x00"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3),
    max_leaves=6,
)  # fmt: skip


def places(tree, path=()):
    """Return the path of every value of nested mappings and lists."""
    items = tree.items() if isinstance(tree, dict) else enumerate(tree)
    found = []
    for key, value in items:
        found.append((*path, key))
        if isinstance(value, dict | list):
            found += places(value, (*path, key))
    return found


PLACES = places(small_params())


@st.composite
def spoilt_params(draw):
    """Params of which some values are replaced, removed, or joined by unknown ones."""
    params = copy.deepcopy(small_params())
    for path in draw(st.lists(st.sampled_from(PLACES), min_size=1, max_size=3)):
        holder = params
        try:
            for key in path[:-1]:
                holder = holder[key]
            action = draw(st.sampled_from(["replace", "remove", "add"]))
            if action == "remove":
                del holder[path[-1]]
            elif action == "add" and isinstance(holder, dict):
                holder[draw(st.text(max_size=8))] = draw(VALUES)
            else:
                holder[path[-1]] = draw(VALUES)
        except (KeyError, IndexError, TypeError):
            continue  # an earlier change took the place away
    return params


@st.composite
def spoilt_text(draw, text):
    """Text with a piece cut out, doubled or replaced."""
    start = draw(st.integers(0, len(text)))
    length = draw(st.integers(0, 40))
    new = draw(st.text(max_size=10) | st.sampled_from(FRAGMENTS))
    return text[:start] + new + text[start + length :]


def check_params(folder, content):
    file = folder / "params.yaml"
    file.write_bytes(content)
    with only_our_errors("params.yaml", lines=True):
        method_options(load_params(file).method)


def params_structure(folder, count):
    @examples(count)
    @given(spoilt_params())
    def run(params):
        check_params(folder, json.dumps(params).encode("utf-8", "surrogatepass"))

    run()


def params_text(folder, count):
    text = (ROOT / "params.yaml").read_text()

    @examples(count)
    @given(spoilt_text(text) | st.text(max_size=60))
    def run(spoilt):
        check_params(folder, spoilt.encode("utf-8", "surrogatepass"))

    run()


def suite_text(folder, count):
    texts = [file.read_text() for file in SUITES]
    (folder / "params.yaml").write_text((ROOT / "params.yaml").read_text())

    @examples(count)
    @given(st.sampled_from(texts).flatmap(spoilt_text))
    def run(spoilt):
        (folder / "suite.yaml").write_bytes(spoilt.encode("utf-8", "surrogatepass"))
        with only_our_errors("suites", lines=True):
            use(str(folder / "suite.yaml"), folder / "params.yaml")
        load_params(folder / "params.yaml")  # whatever happened, it is valid

    run()


def manifest_text(folder, count):
    digest = "0123456789abcdef" * 4
    texts = {
        "images": f"path,sha256,width,height\nd/a/1.png,{digest},4,3\nd/b/2.png,{digest},4,3\n",
        "tasks": "row,task,seed_0,seed_7\n0,0,train,test\n1,1,test,train\n",
        "labels": "path,class,label\nd/a/1.png,a,0\nd/b/2.png,b,1\n",
        "classes": "label,class,task\n0,a,0\n1,b,1\n",
    }

    @examples(count)
    @given(
        st.sampled_from(sorted(texts)).flatmap(
            lambda n: st.tuples(st.just(n), spoilt_text(texts[n]))
        )
    )
    def run(case):
        name, spoilt = case
        file = folder / f"{name}.csv"
        file.write_bytes(spoilt.encode("utf-8", "surrogatepass"))
        with only_our_errors("manifests"):
            getattr(manifest_files, f"read_{name}")(file)

    run()


def list_text(folder, count):
    @examples(count)
    @given(spoilt_text("a/1.png 0\nb/2 2.png 1\n") | st.binary(max_size=40))
    def run(spoilt):
        content = spoilt if isinstance(spoilt, bytes) else spoilt.encode("utf-8", "surrogatepass")
        (folder / "list.txt").write_bytes(content)
        with only_our_errors("image lists"):
            for entry in read_image_list(folder / "list.txt"):
                assert ".." not in entry.path.parts
                assert not entry.path.is_absolute()

    run()


KINDS = [
    (params_structure, 250), (params_text, 60), (suite_text, 60), (manifest_text, 250), (list_text, 100),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "count"), KINDS, ids=lambda value: getattr(value, "__name__", ""))
def test_hundreds(kind, count, tmp_path):
    kind(tmp_path, count)


@pytest.mark.long
@pytest.mark.parametrize(("kind", "count"), KINDS, ids=lambda value: getattr(value, "__name__", ""))
def test_thousands(kind, count, tmp_path):
    kind(tmp_path, 10 * count)


@pytest.mark.parametrize(
    "text",
    [
        "[" * 5_000,
        "a: " * 5000,
        "a: &a [*a]",
        "a: &a {b: *a}",
        "".join(f"l{i}: &l{i} [{', '.join([f'*l{i - 1}' if i else 'x'] * 10)}]\n" for i in range(12)),
        "!!python/object/apply:os.system ['touch marker']",
        "suite: 2001-99-99",
        "suite: !!timestamp nonsense",
        "suite: !!int x",
        "? [a, b]\n: c",
        "\x00",
        "",
    ],
)  # fmt: skip
def test_yaml_that_would_recurse_explode_or_run_code(text, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("params.yaml").write_text(text)
    with pytest.raises(ParamsError):
        load_params()
    assert not Path("marker").exists()
