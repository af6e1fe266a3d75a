"""Score a problem's adapted model on the target's test images, the only code of the method that reads their labels."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from pipeline.method.adaptation import Referee
from pipeline.method.continual_metrics import Answers, LabelSpaceScores, scores_after_tasks
from pipeline.method.evaluation import Scores, pseudo_label_quality, score
from pipeline.method.fusion import PseudoLabels
from pipeline.method.kernel_rows import kernel_rows
from pipeline.method.prediction import predict
from pipeline.method.rejection import rejector
from pipeline.method.rows import Matrix64, RowReduction
from pipeline.method.variants import MethodOptions
from pipeline.problem.domain import LabelledDomain
from pipeline.problem.method_options import check_options
from pipeline.problem.problem import Problem
from pipeline.store.array_store import ArrayStore
from pipeline.store.target_store import read_classifiers, read_pseudo_labels, read_rejections


@dataclass(frozen=True, eq=False)
class Evaluation:
    """An adapted model and the labelled target that it is scored on."""

    problem: Problem
    target: LabelledDomain
    model: ArrayStore  # as written by `target_store`
    options: MethodOptions

    def __post_init__(self) -> None:
        """Raise StoreError if the model was made with other backbones, bases or options."""
        self.problem.check_backbones()
        self.problem.bases.require_model(self.model)
        check_options(self.model, self.options)

    def score(self, seed_index: int, reduce_rows: RowReduction) -> Scores:
        """Return the scores of a seed on its test images after every task."""
        target, test = self.target, self.target.test_index(self.target.seeds[seed_index])
        return score(
            Referee(self.problem.bases.basis(seed_index), self.options, target.prompts.logit_scale, reduce_rows),
            target.rows(test, self.options.test_views),
            target.labels[test],
            target.tasks.task[test],
            list(self.problem.source_models(seed_index)),
            read_classifiers(self.model, seed_index),
        )

    def label_space_scores(self, seed_index: int) -> list[LabelSpaceScores]:
        """Return the scores of a seed after each task on all test images so far, including unknown classes."""
        target, options = self.target, self.options
        test = target.test_index(target.seeds[seed_index], unknown=True)
        rows = target.rows(test, options.test_views)
        features = kernel_rows(self.problem.bases.basis(seed_index), rows, options.clip_in_kernel)
        states, directions = read_rejections(self.model, seed_index), self.problem.class_directions(seed_index)
        models = zip(self.problem.source_models(seed_index), read_classifiers(self.model, seed_index), strict=True)
        answers = []
        for k, (source, classifier) in enumerate(models):
            prediction = predict(features, rows.cosines, source, classifier, options, target.prompts.logit_scale)
            if states is not None:
                answers.append(rejector(states[k], directions).answers(prediction.label, rows))
            else:
                u = 1 - prediction.fused.max(axis=1)
                answers.append(Answers(prediction.label, np.zeros(len(test), dtype=np.bool_), u))
        return scores_after_tasks(target.labels[test], target.tasks.task[test], answers)

    def pseudo_labels(self) -> Iterator[PseudoLabels]:
        """Yield the final pseudo-labels of all images, once per seed."""
        return (read_pseudo_labels(self.model, i, self.target.vision.rows) for i in range(len(self.target.seeds)))

    def pseudo_label_quality(self) -> Matrix64:
        """Return the accuracy of kept pseudo-labels (NaN if none is kept) and the share kept, (S, T, 2)."""
        quality = []
        for seed, labels in zip(self.target.seeds, self.pseudo_labels(), strict=True):
            for task in range(len(self.target.class_sets)):
                train = self.target.train_index(seed, task)
                quality.append(pseudo_label_quality(labels, self.target.labels, train))
        return np.reshape(quality, (len(self.target.seeds), -1, 2))
