import importlib.util

from pipeline.store.code_fingerprint import code_fingerprint


def module(tmp_path, source):
    file = tmp_path / f"m{abs(hash(source))}.py"
    file.write_text(source)
    spec = importlib.util.spec_from_file_location("some_module", file)
    made = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(made)
    return made


def test_comments_and_docstrings_do_not_count_and_code_does(tmp_path):
    plain = code_fingerprint([module(tmp_path, "def f(x):\n    return x + 1\n")])
    said = code_fingerprint(
        [module(tmp_path, '"""Doc."""\ndef f(x):\n    """Add."""  # why\n    return x + 1\n')]
    )
    other = code_fingerprint([module(tmp_path, "def f(x):\n    return x + 2\n")])
    assert plain == said != other


def test_c_beside_a_module_counts(tmp_path):
    file = tmp_path / "some_module.py"
    file.write_text("x = 1\n")
    spec = importlib.util.spec_from_file_location("some_module", file)
    made = importlib.util.module_from_spec(spec)
    alone = code_fingerprint([made])
    (tmp_path / "some_module.c").write_text("int x = 1;\n")
    with_c = code_fingerprint([made])
    (tmp_path / "some_module.c").write_text("int x = 2;\n")
    assert len({alone, with_c, code_fingerprint([made])}) == 3
