"""The tables of a suite, from figures worked out by hand."""

from dataclasses import replace
from decimal import Decimal

import pytest

from pipeline.report.comparison_files import Figures
from pipeline.report.published import read_published
from pipeline.report.suite_results import Suite
from pipeline.report.suite_tables import (
    PUBLISHED,
    ablation_table,
    comparison_table,
    headline_table,
    sensitivity_table,
)

PAPER = read_published()
GROUPS = {"source_only": "reference", "clip_zero_shot": "reference", "no_clip": "ablation"}


def figures(*per_seed, method="calibrated", sd=1.5, source_samples=False):
    return Figures(
        title=f"the {method}",
        group=GROUPS.get(method, "referee" if method in {"calibrated", "paper"} else "peer"),
        source_samples=source_samples,
        mean=sum(per_seed) / len(per_seed),
        sd=sd,
        per_seed=per_seed,
    )


def suite(results, dataset="office31", name="test"):
    datasets = dataset if isinstance(dataset, dict) else dict.fromkeys(results, dataset)
    told = {
        problem: {m: figures(*seeds, method=m) for m, seeds in methods.items()}
        for problem, methods in results.items()
    }
    return Suite(name, told, datasets)


OFFICE = {
    "amazon-dslr": {
        "ewc": (50, 60),
        "source_only": (70, 80),
        "calibrated": (90, 94),
        "no_clip": (88, 92),
    },
    "dslr-amazon": {
        "ewc": (70, 60),
        "source_only": (60, 70),
        "calibrated": (90, 80),
        "no_clip": (91, 81),
    },
}
VISDA = {"visda_train-visda_validation": {"calibrated": (60, 62), "no_clip": (50, 52)}}


def block(table, heading):
    (found,) = [b for b in table.blocks if b.heading == heading]
    return found


def row(table, key, heading=None):
    blocks = table.blocks if heading is None else [block(table, heading)]
    (found,) = [r for b in blocks for r in b.rows if r.key == key and (heading or not b.published)]
    return found


def cell(table, key, column, heading=None):
    place = [c.key for c in table.columns].index(column)
    return row(table, key, heading).cells[place]


def best(table, *, published):
    """Return column -> the rows in bold."""
    return {
        column.key: [
            r.key
            for b in table.blocks
            if b.published == published
            for r in b.rows
            if r.cells[i] and r.cells[i].best
        ]
        for i, column in enumerate(table.columns)
    }


def test_groups_in_order_and_what_was_published_last():
    table = comparison_table(suite(OFFICE), PAPER)
    assert [b.heading for b in table.blocks] == [
        "references",
        "ablations",
        "REFEREE",
        "peers",
        PUBLISHED,
    ]
    assert [b.published for b in table.blocks] == [False] * 4 + [True]
    assert table.caption == "Final accuracy of every method, Office-31"


def test_columns_are_the_problems_then_their_mean():
    table = comparison_table(suite(OFFICE), PAPER)
    assert [c.key for c in table.columns] == ["amazon-dslr", "dslr-amazon", "mean"]
    assert [c.title for c in table.columns] == ["A→D", "D→A", "mean"]


def test_the_mean_deviates_as_the_seeds_means_do():
    table = comparison_table(suite(OFFICE), PAPER)
    assert cell(table, "ewc", "amazon-dslr").sd == Decimal("1.50")  # as compare said
    mean = cell(table, "ewc", "mean")
    assert (mean.mean, mean.sd) == (Decimal("60.00"), Decimal("0.00"))  # 60 with either seed
    mean = cell(table, "calibrated", "mean")
    assert (mean.mean, mean.sd) == (Decimal("88.50"), Decimal("1.50"))  # 90 and 87


def test_one_seed_has_no_deviation():
    told = suite({p: {"calibrated": (80.0,)} for p in OFFICE})
    table = comparison_table(told, [])
    assert [c.sd for c in row(table, "calibrated").cells] == [None] * 3
    assert "one seed" in table.notes[0]


def test_the_best_measured_and_the_best_published_do_not_compete():
    table = comparison_table(suite(OFFICE), PAPER)
    assert best(table, published=False) == {
        "amazon-dslr": ["calibrated"],
        "dslr-amazon": ["no_clip"],
        "mean": ["calibrated"],
    }
    assert best(table, published=True) == {
        "amazon-dslr": ["released"],
        "dslr-amazon": ["released"],
        "mean": [],  # the paper's mean is over six problems
    }


def test_what_looks_the_same_is_best_alike():
    told = {"amazon-dslr": {"calibrated": (90.04,), "paper": (90.01,), "ewc": (89.94,)}}
    table = comparison_table(suite(told), [])
    assert best(table, published=False)["amazon-dslr"] == ["calibrated", "paper"]


def test_a_published_average_needs_all_the_papers_problems():
    problems = {f.problem for f in PAPER if f.dataset == "office31"} - {"mean"}
    whole = comparison_table(suite({p: {"calibrated": (80, 90)} for p in problems}), PAPER)
    assert str(cell(whole, "clamp", "mean", PUBLISHED).mean) == "79.74"
    more = {p: {"calibrated": (80, 90)} for p in [*problems, "amazon-caltech"]}
    table = comparison_table(suite(more), PAPER)
    assert cell(table, "clamp", "mean", PUBLISHED) is None
    assert cell(table, "clamp", "amazon-caltech", PUBLISHED) is None
    assert str(cell(table, "clamp", "amazon-dslr", PUBLISHED).mean) == "84.29"


def test_the_same_domains_of_another_dataset_are_not_the_papers():
    table = comparison_table(suite(OFFICE, "office_caltech10"), PAPER)
    assert not any(b.published for b in table.blocks)
    assert table.columns[0].title == "amazon → dslr"
    assert not any(b.published for b in ablation_table(suite(OFFICE, "digits"), PAPER).blocks)


def test_published_rows_are_as_printed_and_say_what_differs():
    told = {"webcam-dslr": {"calibrated": (90, 91)}}
    printed = block(comparison_table(suite(told), PAPER), PUBLISHED)
    assert printed.digits is None
    assert [r.title for r in printed.rows][:2] == ["AGLA", "CDCL"]
    assert printed.rows[-1].title == "REFEREE"
    assert [str(r.cells[0].mean) for r in printed.rows][-1] == "100"
    assert [r.source_samples for r in printed.rows] == [True] * 13 + [False]
    assert all(r.note for r in printed.rows)


def test_a_method_that_a_problem_lacks_has_no_mean():
    told = {**OFFICE, "dslr-amazon": {"calibrated": (90, 80), "si": (1, 2)}}
    table = comparison_table(suite(told), [])
    assert cell(table, "ewc", "dslr-amazon") is None
    assert cell(table, "ewc", "mean") is None
    assert cell(table, "si", "amazon-dslr") is None
    assert cell(table, "calibrated", "mean") is not None
    assert best(table, published=False)["mean"] == ["calibrated"]


def test_source_samples_are_marked():
    told = suite(OFFICE)
    reads = {
        problem: {m: replace(f, source_samples=m == "ewc") for m, f in methods.items()}
        for problem, methods in told.results.items()
    }
    table = comparison_table(replace(told, results=reads), [])
    assert [r.key for b in table.blocks for r in b.rows if r.source_samples] == ["ewc"]
    assert ("†", "reads source samples while adapting: not source-free") in table.footnotes("bold")
    assert "†" not in dict(comparison_table(told, []).footnotes("bold"))


def test_several_datasets_have_sections_and_a_summary():
    datasets = {**dict.fromkeys(OFFICE, "office31"), **dict.fromkeys(VISDA, "visda")}
    table = comparison_table(suite({**OFFICE, **VISDA}, datasets), PAPER)
    office, visda, whole = table.parts()
    assert office.caption == "Final accuracy of every method, Office-31"
    assert [c.key for c in office.columns] == ["amazon-dslr", "dslr-amazon", "office31.mean"]
    assert [c.title for c in visda.columns] == ["synthetic→real"]  # a mean of one is no column
    assert [c.title for c in whole.columns] == ["Office-31", "VisDA", "mean of 3 problems"]
    assert "ewc" not in [r.key for b in visda.blocks if not b.published for r in b.rows]
    assert cell(whole, "calibrated", "mean").mean == Decimal("79.33")  # of 92, 85, 61
    assert cell(whole, "released", "mean", PUBLISHED) is None


def test_ablation():
    table = ablation_table(suite(OFFICE), PAPER)
    assert [r.key for b in table.blocks for r in b.rows] == ["calibrated", "no_clip"]
    assert cell(table, "calibrated", "change") is None
    change = cell(table, "no_clip", "change")
    assert (change.mean, change.best) == (Decimal("-0.50"), False)  # 88 against 88.5
    assert table.columns[-1].signed


def test_ablation_of_visda_has_the_papers_below():
    printed = block(ablation_table(suite(VISDA, "visda"), PAPER), PUBLISHED)
    assert {r.key: str(r.cells[0].mean) for r in printed.rows} == {
        "released": "85.12",
        "no_clip": "68.60",
        "no_augmentation": "83.79",
        "no_weighting": "84.44",
    }
    assert [r.cells[0].best for r in printed.rows] == [True, False, False, False]
    compared = block(comparison_table(suite(VISDA, "visda"), PAPER), PUBLISHED)
    assert [r.title for r in compared.rows if r.title.startswith("REFEREE")] == ["REFEREE"]


def test_no_ablation_no_table():
    assert ablation_table(suite({"amazon-dslr": {"calibrated": (1, 2)}}), PAPER) is None


def test_headline():
    table = headline_table(suite(OFFICE))
    assert [c.key for c in table.columns] == [
        "clip_zero_shot",
        "source_only",
        "paper",
        "released",
        "calibrated",
        "gain",
    ]
    assert [r.key for b in table.blocks for r in b.rows] == ["amazon-dslr", "dslr-amazon", "mean"]
    assert [r.cells[5].mean for b in table.blocks for r in b.rows] == [
        Decimal("17.00"),
        Decimal("20.00"),
        Decimal("18.50"),
    ]
    assert cell(table, "amazon-dslr", "paper") is None  # was not compared
    assert cell(table, "amazon-dslr", "calibrated").best
    assert not cell(table, "amazon-dslr", "source_only").best


def test_headline_where_the_source_alone_is_better():
    told = {"amazon-dslr": {"source_only": (92, 92), "calibrated": (90, 91)}}
    table = headline_table(suite(told))
    assert cell(table, "amazon-dslr", "gain").mean == Decimal("-1.50")
    assert cell(table, "amazon-dslr", "source_only").best
    assert not cell(table, "amazon-dslr", "calibrated").best


def test_headline_of_several_datasets():
    datasets = {**dict.fromkeys(OFFICE, "office31"), **dict.fromkeys(VISDA, "visda")}
    table = headline_table(suite({**OFFICE, **VISDA}, datasets, name="both"))
    assert table.caption == "Final accuracy, both"
    assert [b.heading for b in table.blocks] == ["Office-31", "", "VisDA", "all datasets"]
    assert row(table, "mean").title == "mean of 3 problems"
    assert cell(table, "mean", "gain") is None  # VisDA has no source_only


def test_sensitivity():
    sweeps = {
        "a-b": {"D": {50.0: (80.0, 1.0), 500.0: (85.0, 0.5)}, "sigma": {1e-4: (85.0, 0.5)}},
        "b-a": {"D": {500.0: (70.0, 0.1), 1000.0: (69.0, 0.2)}, "sigma": {1e-4: (70.0, 0.1)}},
    }
    table = sensitivity_table(sweeps)
    assert [c.key for c in table.columns] == ["D=50", "D=500", "D=1000", "sigma=0.0001"]
    assert cell(table, "b-a", "D=50") is None
    assert [bool(c and c.best) for c in row(table, "a-b").cells] == [False, True, False, True]
    assert [bool(c and c.best) for c in row(table, "b-a").cells] == [False, True, False, True]
    assert [part.name for part in table.parts()] == ["sensitivity-D", "sensitivity-sigma"]


@pytest.mark.parametrize("make", [comparison_table, ablation_table])
def test_every_row_is_as_long_as_the_columns(make):
    datasets = {**dict.fromkeys(OFFICE, "office31"), **dict.fromkeys(VISDA, "visda")}
    table = make(suite({**OFFICE, **VISDA}, datasets), PAPER)
    for part in (table, *table.parts()):
        for b in part.blocks:
            assert {len(r.cells) for r in b.rows} == {len(part.columns)}
