"""`referee use` copies a file of suites/ to suite.yaml, changes nothing else and does not overwrite edits."""

import shutil
from pathlib import Path

import pytest

from pipeline.cli.main import main
from pipeline.cli.use import use
from pipeline.config.params import load_params
from pipeline.errors import ParamsError
from shards import files_in


@pytest.mark.parametrize("suite", ["digits", "template", "office_caltech10"])
def test_suite_is_copied_byte_for_byte_and_nothing_else_changes(shipped, suite):
    results = shipped / "results/digits/metrics.json"
    results.parent.mkdir(parents=True)
    results.write_text("{}")
    before = files_in(shipped)
    use(suite)
    assert files_in(shipped) == before | {"suite.yaml": Path("suites", f"{suite}.yaml").read_bytes()}
    assert load_params().suite == suite
    use("digits")
    assert files_in(shipped) == before


@pytest.mark.parametrize("folder", ["officehome/Real World", "officehome/Real_World", "OfficeHome/RealWorld"])
def test_usual_folder_found_on_disk_is_chosen(shipped, folder):
    (shipped / "data" / folder / "Bed").mkdir(parents=True)
    use("officehome")
    domains = load_params().domains
    assert domains["real_world"].images == f"data/{folder}"
    assert domains["art"].images == "data/officehome/Art"  # the first, as none is on disk
    copy, original = (Path(name).read_text() for name in ("suite.yaml", "suites/officehome.yaml"))
    changed = [line for line in copy.splitlines() if line not in original.splitlines()]
    assert all(line.startswith("    images: ") for line in changed)
    assert original.count("#") == copy.count("#")


def test_settings_that_differ_from_the_published_ones_are_named_with_the_command(shipped, capsys):
    assert main(["use", "office31"]) == 0
    first, *others, last = capsys.readouterr().out.splitlines()
    assert first.startswith("suite.yaml: suite office31, 3 domains, 6 problems")
    assert any("rff.D is 1000" in line and "-S rff.D=6000" in line for line in others)
    assert not any("sigma" in line for line in others)
    assert "referee doctor" in last
    assert main(["use", "digits"]) == 0
    assert len(capsys.readouterr().out.splitlines()) == 2


EDITS = {"a comment": ("\n", "  # mine\n"), "a folder": ("data/officehome/Art", "/mnt/Art")}


@pytest.mark.parametrize(
    ("suite", "edit"), [("digits", "a comment"), ("officehome", "a comment"), ("officehome", "a folder")]
)
def test_edited_suite_yaml_is_not_overwritten(shipped, suite, edit):
    use(suite)
    edited = Path("suite.yaml").read_text().replace(*EDITS[edit], 1)
    Path("suite.yaml").write_text(edited)
    with pytest.raises(ParamsError, match=r"suite.yaml: .*cp suite.yaml suites/mine.yaml.*--force"):
        use("visda")
    assert Path("suite.yaml").read_text() == edited
    shutil.copy("suite.yaml", "suites/mine.yaml")
    use("visda")
    Path("suite.yaml").write_text("not: [a suite")
    assert main(["use", "digits"]) == 2
    assert main(["use", "digits", "--force"]) == 0


def test_unknown_suite_suggests_the_nearest(shipped, refused):
    assert "suites: there is no suite 'ofice31'; did you mean 'office31'" in refused(main, "use", "ofice31")
    with pytest.raises(ParamsError, match=r"gone.yaml: no such file"):
        use("gone.yaml")
