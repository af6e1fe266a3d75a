"""The tables of a suite, checked against figures worked out by hand."""

from dataclasses import replace
from decimal import Decimal

import pytest

from pipeline.report.published import read_published
from pipeline.report.results import Comparison, LabelSpaceFigures, MethodFigures
from pipeline.report.suite import SuiteResults
from pipeline.report.suite_tables import (
    PUBLISHED,
    ablation_table,
    comparison_table,
    headline_table,
    selection_table,
    sensitivity_table,
    unknown_table,
)
from pipeline.report.table_formats import to_csv
from report_content import ACCURACY, CHOSEN, SWEEPS

MADE_WITH = {"rff.D": 1000, "rff.sigma": 1e-4}
PAPER = read_published()
GROUPS = {
    "source_only": "reference",
    "clip_zero_shot": "reference",
    "no_clip": "ablation",
    "labelled-target": "ceiling",
}


def figures(*per_seed, method="calibrated"):
    return MethodFigures(
        title=f"the {method}",
        group=GROUPS.get(method, "referee" if method in {"calibrated", "paper"} else "peer"),
        source_samples=False,
        A_T=sum(per_seed) / len(per_seed),
        A_T_sd=1.5,
        A_T_per_seed=per_seed,
    )


def suite(results, datasets="office31", name="test", covariance=None):
    """Return a suite with these accuracies: {problem: {method: accuracy per seed}}."""
    compared = {
        problem: Comparison(
            made_with=MADE_WITH,
            test_images=30,
            methods={method: figures(*seeds, method=method) for method, seeds in methods.items()},
            image_covariance=covariance or {},
        )
        for problem, methods in results.items()
    }
    return SuiteResults(name, compared, datasets if isinstance(datasets, dict) else dict.fromkeys(results, datasets))


OFFICE = {
    "amazon-dslr": {"ewc": (50, 60), "source_only": (70, 80), "calibrated": (90, 94), "no_clip": (88, 92)},
    "dslr-amazon": {"ewc": (70, 60), "source_only": (60, 70), "calibrated": (90, 80), "no_clip": (91, 81)},
}
VISDA = {"visda_train-visda_validation": {"calibrated": (60, 62), "no_clip": (50, 52)}}
OFFICE_TABLE = comparison_table(suite(OFFICE))
BOTH = suite({**OFFICE, **VISDA}, {**dict.fromkeys(OFFICE, "office31"), **dict.fromkeys(VISDA, "visda")}, name="both")


def row(table, key, *, published=False):
    (found,) = [r for b in table.blocks for r in b.rows if r.key == key and b.published == published]
    return found


def cell(table, key, column, *, published=False):
    assert column in {c.key for c in table.columns}
    return row(table, key, published=published).cells.get(column)


def best(table, *, published):
    """Return the rows in bold of each column."""
    rows = [r for b in table.blocks if b.published == published for r in b.rows]
    return {column.key: [r.key for r in rows if (c := r.cells.get(column.key)) and c.best] for column in table.columns}


def test_groups_are_in_order_with_published_figures_and_the_mean_last():
    assert [b.heading for b in OFFICE_TABLE.blocks] == ["references", "ablations", "REFEREE", "peers", PUBLISHED]
    assert [b.published for b in OFFICE_TABLE.blocks] == [False] * 4 + [True]
    assert [c.title for c in OFFICE_TABLE.columns] == ["A→D", "D→A", "mean"]  # the paper's names
    assert [c.title for c in comparison_table(suite({"a_b-c": {"ewc": (50,)}})).columns] == ["a b → c"]


def test_the_deviation_of_a_mean_is_over_the_means_per_seed_and_absent_for_a_single_seed():
    assert cell(OFFICE_TABLE, "ewc", "amazon-dslr").sd == Decimal("1.50")  # as in the comparison
    assert cell(OFFICE_TABLE, "ewc", "mean").text() == "60.0 ± 0.0"  # 60 with both seeds
    assert cell(OFFICE_TABLE, "calibrated", "mean").text() == "88.5 ± 1.5"  # 90 and 87
    table = comparison_table(suite({p: {"calibrated": (80.0,)} for p in OFFICE}))
    assert [c.sd for c in row(table, "calibrated").cells.values()] == [None] * 3
    assert "one seed" in table.notes[0]


def test_the_best_is_marked_separately_among_measured_and_published_figures():
    measured = {"amazon-dslr": ["calibrated"], "dslr-amazon": ["no_clip"], "mean": ["calibrated"]}
    assert best(OFFICE_TABLE, published=False) == measured
    printed = {"amazon-dslr": ["released"], "dslr-amazon": ["released"], "mean": []}  # its mean is over six problems
    assert best(OFFICE_TABLE, published=True) == printed


def test_the_ceiling_is_never_the_best_and_equal_printed_figures_share_the_mark():
    results = {"a-b": {"labelled-target": (98,), "calibrated": (90.04,), "paper": (90.01,), "ewc": (89.94,)}}
    table = comparison_table(suite(results))
    assert [b.heading for b in table.blocks][-1] == "ceiling, not a method"
    assert best(table, published=False) == {"a-b": ["calibrated", "paper"]}


@pytest.mark.parametrize(
    ("calibrated", "ewc", "variance", "distinguishable"),
    [
        ((92.0,), (90.0,), 0.9, True),  # a difference of 2 points, a standard error of 0.95
        ((92.0,), (90.0,), 1.1, False),
        ((92.0, 92.0), (90.0, 90.0), 0.9, True),
        ((95.0, 89.0), (90.0, 90.0), 0.0, False),  # 5 points ahead with one seed, 1 point behind with the other
    ],
)
def test_methods_that_cannot_be_told_apart_are_all_best(calibrated, ewc, variance, distinguishable):
    """``variance`` is that of the difference over the images."""
    joint = 1.0 - variance / 2
    covariance = {"calibrated": {"calibrated": 1.0, "ewc": joint}, "ewc": {"calibrated": joint, "ewc": 1.0}}
    table = comparison_table(suite({"amazon-dslr": {"calibrated": calibrated, "ewc": ewc}}, covariance=covariance))
    marked = best(table, published=False)["amazon-dslr"]
    assert marked == (["calibrated"] if distinguishable else ["calibrated", "ewc"])


def test_a_published_average_is_shown_only_for_exactly_the_papers_problems():
    problems = {f.problem for f in PAPER if f.dataset == "office31"} - {"mean"}
    whole = comparison_table(suite({p: {"calibrated": (80, 90)} for p in problems}))
    assert str(cell(whole, "clamp", "mean", published=True).mean) == "79.74"
    extended = {p: {"calibrated": (80, 90)} for p in [*problems, "amazon-caltech"]}
    table = comparison_table(suite(extended))
    assert cell(table, "clamp", "mean", published=True) is None
    assert cell(table, "clamp", "amazon-caltech", published=True) is None
    assert str(cell(table, "clamp", "amazon-dslr", published=True).mean) == "84.29"


def test_a_method_that_is_missing_or_failed_on_a_problem_has_no_mean():
    results = suite({**OFFICE, "dslr-amazon": {"calibrated": (90, 80), "si": (1, 2)}})
    table = comparison_table(results)
    assert cell(table, "ewc", "dslr-amazon") is None
    assert cell(table, "ewc", "mean") is None
    assert cell(table, "si", "amazon-dslr") is None
    assert cell(table, "calibrated", "mean") is not None
    assert best(table, published=False)["mean"] == ["calibrated"]
    results.comparisons["dslr-amazon"].methods["ewc"] = figures(1, method="ewc").model_copy(
        update={"failed": "too few images"}
    )
    table = comparison_table(results)
    assert row(table, "ewc").note == "failed on dslr-amazon (too few images)"
    assert cell(table, "ewc", "amazon-dslr") is not None
    assert cell(table, "ewc", "mean") is None


def test_a_method_that_one_problem_lacks_has_no_mean_among_those_that_may_answer_unknown():
    scores = LabelSpaceFigures(shared=80, unknown=60, h_score=68, h_score_sd=1, auroc=90, per_task={})
    results = {"a-b": {"rejecting": (70, 72), "mcm": (50, 52)}, "b-a": {"rejecting": (60, 62)}}
    comparisons = {
        problem: compared.model_copy(
            update={
                "methods": {m: one.model_copy(update={"label_space": scores}) for m, one in compared.methods.items()}
            }
        )
        for problem, compared in suite(results).comparisons.items()
    }
    measured = replace(suite(results), comparisons=comparisons, label_spaces=dict.fromkeys(results, "open"))
    table = unknown_table(measured)
    assert cell(table, "mcm", "a-b")
    assert cell(table, "rejecting", "open.h_score.mean")
    assert cell(table, "mcm", "b-a") is None
    assert cell(table, "mcm", "open.h_score.mean") is None


def test_several_datasets_have_sections_and_a_summary():
    office, visda, whole = comparison_table(BOTH).parts()
    assert office.caption == "Final accuracy of every method, Office-31"
    assert [c.key for c in office.columns] == ["amazon-dslr", "dslr-amazon", "office31.mean"]
    assert [c.title for c in visda.columns] == ["synthetic→real"]  # a single problem has no mean
    assert [c.title for c in whole.columns] == ["Office-31", "VisDA", "mean of 3 problems"]
    assert "ewc" not in [r.key for b in visda.blocks if not b.published for r in b.rows]
    assert cell(whole, "calibrated", "mean").mean == Decimal("79.33")  # of 92, 85, 61
    assert cell(whole, "released", "mean", published=True) is None


def test_ablation_has_the_change_of_the_mean_and_on_visda_the_published_ablation():
    table = ablation_table(suite(OFFICE))
    assert [r.key for r in table.rows()] == ["calibrated", "no_clip"]
    assert cell(table, "calibrated", "change") is None
    change = cell(table, "no_clip", "change")
    assert (change.mean, change.best) == (Decimal("-0.50"), False)  # 88 against 88.5
    assert table.columns[-1].signed
    (printed,) = (b for b in ablation_table(suite(VISDA, "visda")).blocks if b.published)
    cells = {r.key: r.cells["visda_train-visda_validation"] for r in printed.rows}
    assert list(cells) == ["released", "no_clip", "no_augmentation", "no_weighting"]
    assert [c.best for c in cells.values()] == [True, False, False, False]
    compared = [r.title for b in comparison_table(suite(VISDA, "visda")).blocks if b.published for r in b.rows]
    assert [title for title in compared if title.startswith("REFEREE")] == ["REFEREE"]


def test_headline_has_a_row_per_problem_and_the_gain():
    table = headline_table(suite(OFFICE))
    keys = ["n", "source_only", "calibrated", "no_clip", "gain"]  # including ablations
    assert [c.key for c in table.columns] == keys
    assert cell(table, "amazon-dslr", "n").text() == "30"
    assert cell(table, "mean", "n") is None
    gains = {"amazon-dslr": "17.0", "dslr-amazon": "20.0", "mean": "18.5"}
    assert {r.key: r.cells["gain"].text() for r in table.rows()} == gains
    assert cell(table, "amazon-dslr", "calibrated").best
    assert cell(table, "dslr-amazon", "no_clip").best  # where an ablation is ahead
    assert not cell(table, "amazon-dslr", "source_only").best
    table = headline_table(BOTH)
    assert table.caption == "Final accuracy, both"
    assert [b.heading for b in table.blocks] == ["Office-31", "", "VisDA", "all datasets"]
    assert row(table, "mean").title == "mean of 3 problems"
    assert cell(table, "mean", "gain") is None  # VisDA has no source_only


def test_sensitivity_has_a_section_per_parameter():
    other = replace(SWEEPS, accuracy=ACCURACY | {"D": ACCURACY["D"].assign(D=[500, 1000])})
    table = sensitivity_table({"a-b": SWEEPS, "b-a": other}, "30 test images")
    assert [c.key for c in table.columns] == ["D=50", "D=500", "D=1000", "sigma=0.0001", "sigma=0.01"]
    assert cell(table, "b-a", "D=50") is None
    assert not any(best(table, published=False).values())
    assert [part.name for part in table.parts()] == ["sensitivity-D", "sensitivity-sigma"]


def test_selection_has_a_section_per_setting_a_block_per_problem_and_their_mean():
    other = CHOSEN.assign(regret=1.0, rank_correlation="")  # of an A_T that is constant
    table = selection_table({"a-b": SWEEPS, "b-a": replace(SWEEPS, choices=other)})
    assert [part.name for part in table.parts()] == ["selection-sigma", "selection-class_priors"]
    assert [block.heading for block in table.blocks] == ["a-b", "b-a", "mean"]
    assert cell(table, "a-b.certainty", "class_priors.chosen").text() == "counted"
    assert cell(table, "a-b.certainty", "sigma.best").text() == "0.0001"
    assert cell(table, "mean.certainty", "sigma.regret").text() == "3.00"
    assert cell(table, "mean.certainty", "sigma.chosen") is None
    assert cell(table, "b-a.views_agree", "sigma.rank") is None
    assert cell(table, "mean.views_agree", "sigma.rank").text() == "1.00"
    line = next(line for line in to_csv(table).splitlines() if line.startswith("a-b.certainty"))
    assert line == "a-b.certainty,0.01,0.0001,5.00,-1.00,counted,counted,0.00,1.00"
