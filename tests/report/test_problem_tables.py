"""The figures and tables of a problem, checked against values worked out by hand."""

from dataclasses import replace

import numpy as np

from pipeline.method.evaluation import BRANCHES, BranchOutcome, Scores
from pipeline.method.fusion import PseudoLabels
from pipeline.report.problem_tables import (
    MISTAKES,
    EvaluatedProblem,
    TargetImages,
    kept_weights,
    problem_figures,
    problem_tables,
    write_problem_tables,
)

NAN = np.nan
MADE_WITH = {"rff.D": 50, "rff.sigma": 1e-4, "method.variant": "paper"}
NOTE = "n = 4 test images, 2 seeds, D=50, sigma=0.0001, paper"
NAMES = ["ant", "bee"]
IMAGES = TargetImages(
    np.array([[0.0, 0, 0], [4, 0, 0], [0, 1, 0], [4, 1, 0]]),
    lambda rows: {row: (f"{row}.png", f"{row:02d}") for row in rows},
)


def scores(last, labels=(0, 1, 1, 0), confidence=(0.9, 0.99, 0.9, 0.99)):
    branch = BranchOutcome(np.array(labels), np.array(confidence, dtype=float))
    return Scores(
        accuracy=np.array([[1.0, NAN], [last, 0.5]]),
        references={"source": np.array([[0.5, NAN], [0.5, 0.25]])},
        ece={"klda": 0.1, "clip": 0.2, "fused": 0.05},
        per_class=np.array([last, 0.5]),
        branches=dict.fromkeys(BRANCHES, branch),
    )


def problem(*seeds, test_rows=None, labels=(0, 1, 0, 1)):
    return EvaluatedProblem(
        class_names=NAMES,
        labels=np.array(labels),
        seeds=[10 + i for i in range(len(seeds))],
        test_rows=[np.array(rows) for rows in test_rows or [[0, 1, 2, 3]] * len(seeds)],
        scores=seeds,
        quality=np.array([[[1.0, 1.0], [0.5, 0.5]], [[1.0, 1.0], [NAN, 0.0]]])[: len(seeds)],
        weight=np.array([0.5, 0.5, 1.0]),
        right=np.array([True, False, True]),
    )


PROBLEM = problem(scores(0.5), scores(1.0))


def records(table):
    header, rows = table
    return [dict(zip(header, row, strict=True)) for row in rows]


def test_figures_are_means_over_the_seeds_in_percent():
    figures = problem_figures(PROBLEM)
    assert figures == {
        "A_T": 62.5,  # of 50 and 75
        "A_T_sd": 12.5,
        "average_incremental": 81.25,  # of 75 and 87.5
        "forgetting": 25.0,  # the first task lost 50 points with one seed and none with the other
        "source_only_A_T": 37.5,
        "pseudo_label_accuracy": 83.33,  # a task without kept pseudo-labels has no accuracy
        "pseudo_labels_kept": 62.5,
        "ece": {"klda": 10.0, "clip": 20.0, "fused": 5.0},
        "A_T_per_seed": [50.0, 75.0],
        "test_images": 4,
        "classes": 2,
        "weight_auroc": 75.0,
    }
    all_right = replace(PROBLEM, right=np.array([True] * 3), quality=np.full((2, 2, 2), NAN))
    assert "weight_auroc" not in problem_figures(all_right)
    assert problem_figures(all_right)["pseudo_label_accuracy"] is None


def test_weights_cover_only_kept_pseudo_labels_of_train_images():
    label, kept = np.array([0, 1, 1, 1]), np.array([True, True, False, True])
    pseudo_labels = PseudoLabels(label, np.zeros((4, 2)), np.array([0.1, 0.2, 0.3, 0.4]), kept)
    is_test = np.array([False, False, False, True])
    weight, right = kept_weights([pseudo_labels, pseudo_labels], [is_test, is_test], np.array([0, 0, 1, 1]))
    assert weight.tolist() == [0.1, 0.2, 0.1, 0.2]
    assert right.tolist() == [True, False, True, False]


def test_tables_are_written_as_csv(tmp_path):
    write_problem_tables(tmp_path / "t", problem_tables(PROBLEM, IMAGES, MADE_WITH))
    # the first task lost 50 and 0 points, and ended at 50 and 100
    expected = {
        "forgetting": "task,best,final,forgotten\n1,100.0,75.0,25.0\n",
        "tasks": f'of,after_task,adapted,sd,source_only\n"{NOTE}",1,100.0,0.0,50.0\n"{NOTE}",2,62.5,12.5,37.5\n',
        "accuracy_matrix": f'of,after_task,task,accuracy\n"{NOTE}",1,1,100.0\n"{NOTE}",2,1,75.0\n"{NOTE}",2,2,50.0\n',
        "classes": f'of,class,accuracy\n"{NOTE}",ant,75.0\n"{NOTE}",bee,50.0\n',
        "pseudo_labels": "task,accuracy,kept\n1,100.0,100.0\n2,50.0,25.0\n",
        "weights": "lowest,highest,weight,images,accuracy\n0.5,0.5,0.5,2,50.0\n1,1,1,1,100.0\n",
        # correct predictions first, in the order of the classes; counts only, as rows of images would reveal labels
        "confusion": "of,actual,predicted,images,share\n"
        + "".join(f'"{NOTE}",{pair},2,50.0\n' for pair in ("ant,ant", "bee,bee", "ant,bee", "bee,ant")),
    }
    assert {name: (tmp_path / f"t/{name}.csv").read_text() for name in expected} == expected


def test_tables_of_a_private_target_name_no_image():
    tables = problem_tables(PROBLEM, None, MADE_WITH)
    assert records(tables["shown"]) == records(tables["map"]) == []
    assert records(tables["reliability"])


def test_reliability_pools_the_seeds_and_omits_empty_bins():
    pooled = problem(scores(1, (0, 1), (0.9, 0.99)), scores(1, (0,), (0.91,)), test_rows=[[0, 2], [0]])
    fused = [row for row in records(problem_tables(pooled, None, MADE_WITH)["reliability"]) if row["branch"] == "fused"]
    keys = ("from", "to", "images", "confidence", "accuracy")
    assert [tuple(row[key] for key in keys) for row in fused] == [
        (86.67, 93.33, 2, 90.5, 100.0),
        (93.33, 100.0, 1, 99.0, 0.0),
    ]


def shown(evaluated):
    return records(problem_tables(evaluated, replace(IMAGES, embeddings=np.zeros((50, 2))), MADE_WITH)["shown"])


def test_mistakes_are_the_most_confident_of_all_seeds_with_each_image_once():
    labels = np.zeros(10, int)
    labels[[8, 9]] = 1
    evaluated = problem(
        scores(1, (1, 0, 0), (0.6, 0.99, 0.7)),
        scores(1, (0, 0), (0.9, 0.65)),
        test_rows=[[3, 5, 8], [8, 9]],
        labels=labels,
    )
    mistakes = [(row["seed"], row["path"]) for row in shown(evaluated) if row["role"] == "mistake"]
    assert mistakes == [(11, "8.png"), (11, "9.png"), (10, "3.png")]
    many = problem(scores(1, [1] * 50, np.linspace(0.5, 1, 50)), test_rows=[range(50)], labels=[0] * 50)
    assert [row["role"] for row in shown(many)].count("mistake") == MISTAKES


def test_shown_images_have_their_path_and_the_prediction_of_each_branch():
    rows = shown(problem(scores(1, (1, 1), (0.75, 0.9)), test_rows=[[2, 1]]))
    assert [(row["role"], row["path"], row["actual"]) for row in rows] == [
        ("mistake", "2.png", "ant"),
        ("example", "2.png", "ant"),
        ("example", "1.png", "bee"),
    ]
    assert (rows[0]["seed"], rows[0]["fused_says"], rows[0]["fused_confidence"]) == (10, "bee", 75.0)


def test_the_map_has_predictions_of_test_images_only():
    evaluated = problem(scores(1, (1, 1), (0.75, 0.9)), test_rows=[[1, 2]])
    _, rows = problem_tables(evaluated, IMAGES, MADE_WITH)["map"]
    assert list(rows) == [
        (-1.0, -0.25, "ant", "train", ""),
        (1.0, -0.25, "bee", "test", "bee"),
        (-1.0, 0.25, "ant", "test", "bee"),
        (1.0, 0.25, "bee", "train", ""),
    ]
