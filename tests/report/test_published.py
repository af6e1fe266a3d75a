"""The paper's figures: under our names, as printed, and nothing unknown among them."""

from collections import Counter
from decimal import Decimal
from pathlib import Path

import pytest
from ruamel.yaml import YAML

from pipeline.errors import InputError
from pipeline.report.published import FILE, abbreviation, problems_of, read_published

ROOT = Path(__file__).parents[2]
HEADER = "dataset,problem,method,accuracy_mean,accuracy_sd"
FIGURES = read_published()
TABLE = {(f.dataset, f.problem, f.title): (str(f.mean), f.sd and str(f.sd)) for f in FIGURES}


def problems_of_suite(name):
    return set(YAML(typ="safe", pure=True).load(ROOT / f"suites/{name}.yaml")["problems"])


def test_every_figure_is_there():
    assert Counter(f.dataset for f in FIGURES) == {
        "office31": 14 * 7,
        "officehome": 14 * 13,
        "visda": 14,
        "domainnet": 3 * 3,
        "visda-ablation": 4,
    }


@pytest.mark.parametrize(  # read off the paper's tables by eye
    ("key", "printed"),
    [
        (("office31", "amazon-dslr", "REFEREE"), ("93.55", "2.1")),
        (("office31", "webcam-dslr", "REFEREE"), ("100", None)),
        (("office31", "dslr-webcam", "AGLA"), ("62.50", "6.02")),
        (("office31", "mean", "CLAMP"), ("79.74", "16.5")),
        (("officehome", "art-real_world", "EEIL"), ("52.80", "1.2")),
        (("officehome", "real_world-product", "REFEREE"), ("77.22", "1.3")),
        (("domainnet", "domainnet_sketch-domainnet_clipart", "REFEREE"), ("36.62", None)),
        (("visda", "visda_train-visda_validation", "AGLA"), ("25.8", "2.7")),
        (("visda-ablation", "visda_train-visda_validation", "REFEREE w/o CLIP"), ("68.60", "0.4")),
    ],
)
def test_as_printed(key, printed):
    assert TABLE[key] == printed


@pytest.mark.parametrize("dataset", ["office31", "officehome", "visda", "domainnet"])
def test_problems_are_those_of_our_suite(dataset):
    named = {f.problem for f in FIGURES if f.dataset == dataset} - {"mean"}
    assert named == problems_of_suite(dataset) == set(problems_of(dataset))


def test_all21_is_covered():
    named = {f.problem for f in FIGURES if f.title == "REFEREE"} - {"mean"}
    assert named == problems_of_suite("all21")


def test_averages_are_means_but_for_the_one_that_is_misprinted():
    off = []
    for dataset in ("office31", "officehome", "domainnet"):
        for title in dict.fromkeys(f.title for f in FIGURES if f.dataset == dataset):
            row = {f.problem: f.mean for f in FIGURES if (f.dataset, f.title) == (dataset, title)}
            average = row.pop("mean")
            if abs(sum(row.values()) / len(row) - average) > Decimal("0.0051"):
                off.append((dataset, title))
    assert off == [("officehome", "AGLA")]  # published.md says so


def test_methods_have_our_names_and_say_what_differs():
    by_title = {f.title: f for f in FIGURES}
    assert by_title["REFEREE"].method == "released"
    assert by_title["REFEREE w/o weighting"].method == "no_weighting"
    assert by_title["iCaRL"].method == "icarl"
    for title, figure in by_title.items():
        assert figure.source_samples == (not title.startswith("REFEREE"))
        assert ("ResNet50" if figure.source_samples else "twice") in figure.note


def test_the_papers_names_of_problems():
    assert abbreviation("office31", "amazon-dslr") == "A→D"
    assert abbreviation("officehome", "real_world-clipart") == "Rw→Cl"
    assert abbreviation("visda", "visda_validation-visda_train") is None
    assert abbreviation("office_caltech10", "amazon-dslr") is None


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("office32,A→D,EWC,1,1", "no dataset 'office32'; did you mean 'office31'?"),
        ("office31,A→C,EWC,1,1", "office31 has no problem 'A→C'"),
        ("office31,A→A,EWC,1,1", "office31 has no problem 'A→A'"),
        ("visda,Avg,EWC,1,1", "visda has no problem 'Avg'"),
        ("visda,real→synthetic,EWC,1,1", "visda has no problem 'real→synthetic'"),
        ("office31,A→D,EWK,1,1", "office31 has no method 'EWK'; did you mean 'EWC'?"),
        ("office31,A→D,REFEREE w/o CLIP,1,1", "has no method 'REFEREE w/o CLIP'"),
        ("visda-ablation,synthetic→real,EWC,1,1", "visda-ablation has no method 'EWC'"),
        ("office31,A→D,EWC,100.1,1", "'100.1' is not a number from 0 to 100"),
        ("office31,A→D,EWC,-1,1", "'-1' is not a number from 0 to 100"),
        ("office31,A→D,EWC,nan,1", "'nan' is not a number from 0 to 100"),
        ("office31,A→D,EWC,1 ± 2,1", "'1 ± 2' is not a number"),
        ("office31,A→D,EWC,,1", "'' is not a number"),
        ("office31,A→D,EWC,1,x", "'x' is not a number"),
        ("office31,A→D,EWC,1", "4 values, not 5"),
        ("office31,A→D,SI,2,2", "office31 amazon-dslr SI stands there twice"),
    ],
)
def test_what_is_wrong_is_refused_by_its_line(tmp_path, line, message):
    file = tmp_path / "published.csv"
    file.write_text(f"{HEADER}\noffice31,A→D,SI,1,1\n{line}\n")
    with pytest.raises(InputError) as refused:
        read_published(file)
    said = str(refused.value)
    assert said.startswith(f"{file}:3: ")
    assert message in said
    assert "\n" not in said


def test_another_header_or_no_file(tmp_path):
    file = tmp_path / "published.csv"
    with pytest.raises(InputError, match="cannot be read"):
        read_published(file)
    file.write_text(FILE.read_text().replace("accuracy_mean", "mean"))
    with pytest.raises(InputError, match="the header must be"):
        read_published(file)
