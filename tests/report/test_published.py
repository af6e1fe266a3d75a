"""The paper's figures under our names, digit by digit."""

from collections import Counter
from decimal import Decimal

from ruamel.yaml import YAML

from pipeline.report.published import TITLES, problems_of, read_published
from small_project import ROOT

FIGURES = read_published()
TABLE = {(f.dataset, f.problem, f.title): (str(f.mean), f.sd and str(f.sd)) for f in FIGURES}
NUMBER = {"office31": 14 * 7, "officehome": 14 * 13, "visda": 14, "domainnet": 3 * 3, "visda-ablation": 4}
PRINTED = {  # copied from the paper's tables by hand
    ("office31", "amazon-dslr", "REFEREE"): ("93.55", "2.1"),
    ("office31", "webcam-dslr", "REFEREE"): ("100", None),
    ("office31", "dslr-webcam", "AGLA"): ("62.50", "6.02"),
    ("office31", "mean", "CLAMP"): ("79.74", "16.5"),
    ("officehome", "art-real_world", "EEIL"): ("52.80", "1.2"),
    ("officehome", "real_world-product", "REFEREE"): ("77.22", "1.3"),
    ("domainnet", "domainnet_sketch-domainnet_clipart", "REFEREE"): ("36.62", None),
    ("visda", "visda_train-visda_validation", "AGLA"): ("25.8", "2.7"),
    ("visda-ablation", "visda_train-visda_validation", "REFEREE w/o CLIP"): ("68.60", "0.4"),
}


def test_every_figure_occurs_once_and_as_printed():
    assert len(TABLE) == len(FIGURES)
    assert Counter(f.dataset for f in FIGURES) == NUMBER
    assert {key: TABLE[key] for key in PRINTED} == PRINTED


def test_problems_match_those_of_the_suites():
    def problems(suite):
        return set(YAML(typ="safe", pure=True).load(ROOT / f"suites/{suite}.yaml")["problems"])

    assert all(problems(dataset) == set(problems_of(dataset)) for dataset in TITLES)


def test_averages_are_means_except_for_one_misprint():
    rows = {}
    for f in FIGURES:
        rows.setdefault((f.dataset, f.title), {})[f.problem] = f.mean
    averages = {key: row.pop("mean") for key, row in rows.items() if "mean" in row}
    off = {key: abs(sum(rows[key].values()) / len(rows[key]) - mean) for key, mean in averages.items()}
    assert [key for key in off if off[key] > Decimal("0.0051")] == [("officehome", "AGLA")]  # published.md says so


def test_methods_have_our_names_and_a_note_on_the_protocol():
    by_title = {f.title: f for f in FIGURES}
    ours = {"REFEREE": "released", "REFEREE w/o weighting": "no_weighting", "iCaRL": "icarl"}
    assert {title: by_title[title].method for title in ours} == ours
    for title, figure in by_title.items():
        assert figure.source_samples == (not title.startswith("REFEREE"))
        assert ("ResNet50" if figure.source_samples else "twice") in figure.note
