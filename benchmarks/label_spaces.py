"""Closed, partial, open, universal and hidden label spaces, against baselines: ``python -m benchmarks.label_spaces``.

In the folder of a project whose suite's features are cached (`dvc repro` up to `prompts`): every problem of the suite
in every label space, all seeds. The first half of the classes in order of arrival (rounded up) are shared; of the
others all are the source's (partial) or the target's (open), or half are each one's (universal). Baselines classify
without adapting and reject by Otsu's threshold on the scores of the train images, as ours does. Prints a Markdown table
of means over problems and seeds, in percent: accuracy on shared classes (mean per class), on unknown, H-score, AUROC.
"""

import json
import sys
from collections import defaultdict
from dataclasses import replace

import numpy as np

from pipeline.datasets.label_spaces import known_classes, label_space, target_tasks
from pipeline.method.adaptation import adapt_task, empty_statistics
from pipeline.method.kernel_rows import kernel_rows
from pipeline.method.label_space_measures import UNKNOWN, label_space_scores
from pipeline.method.prediction import predict
from pipeline.method.presence import with_present_classes
from pipeline.method.random_fourier_features import draw_basis
from pipeline.method.rejection import empty_state, reject, unknownness
from pipeline.method.rows import TargetTask, unit_rows
from pipeline.method.source_model import fit_source
from pipeline.method.variants import variant
from pipeline.params import load_params
from pipeline.stage import open_project

VIEWS = ("original", "zeros", "rand")
ROWS = 2000  # of a domain, evenly spaced: digits has 5,000


def spaces(classes):
    """Return source-private and target-private classes of each label space."""
    names = [row.class_name for row in classes]
    rest = names[(len(names) + 1) // 2 :]
    half = (len(rest) + 1) // 2
    universal = (rest[:half], rest[half:])
    return {
        "closed": ([], []),
        "partial": (rest, []),
        "open": ([], rest),
        "universal": universal,
    }


def otsu(values):
    """Return the threshold that parts the values with the greatest variance between the parts."""
    v = np.sort(values)
    n, left = len(v), np.arange(1, len(v))
    sums = np.cumsum(v)
    between = (sums[-1] * left / n - sums[:-1]) ** 2 / (left * (n - left))
    best = int(np.argmax(between))
    return (v[best] + v[best + 1]) / 2


def entropy(p):
    """Return the entropy of every row."""
    return -(p * np.log(np.maximum(p, 1e-300))).sum(axis=1)


class Setting:
    """A problem in a label space under a seed."""

    def __init__(self, source, target, private, seed, rff):
        self.target, self.number = target, seed
        rows = label_space("", target.all_classes, *private)
        known = known_classes(rows)
        number = {row.class_name: row.label for row in known}
        to_new = np.array([number.get(row.class_name, UNKNOWN) for row in target.all_classes])
        names = [row.class_name for row in target.all_classes]
        few_s, few_t = thinned(source), thinned(target)
        self.labels, source_labels = to_new[target.labels[few_t]], to_new[source.labels[few_s]]
        self.task = target_tasks(rows, [names[y] for y in target.labels[few_t]])
        tasks = np.array([row.task for row in known])
        self.sets = [np.flatnonzero(tasks == t) for t in range(tasks.max() + 1)]
        self.test = target.tasks.is_test(seed)[few_t]
        self.rows = target.rows(few_t, VIEWS)
        order = [
            row.label for name in number for row in target.all_classes if row.class_name == name
        ]
        self.rows = replace(
            self.rows, cosines=np.asarray(self.rows.cosines[np.arange(len(few_t))])[:, order]
        )
        self.scale, self.options = target.prompts.logit_scale, variant("calibrated")
        width, clip_width = target.vision.width, target.clip.width
        self.basis = draw_basis(width, rff.D, rff.sigma, rff.convention, seed, d_clip=clip_width)
        mine = np.flatnonzero(~source.tasks.is_test(seed)[few_s] & (source_labels != UNKNOWN))
        given = source.rows(few_s[mine], VIEWS)
        self.sources = list(
            fit_source(
                self.basis,
                given.views,
                source_labels[mine],
                self.sets,
                self.options,
                clip=given.clip,
            )
        )

    def adapted(self, *, rejecting, hidden):
        """Return labels, rejected and u of the test images after the last task."""
        K, state = len(self.sources[-1].means), empty_state(self.target.vision.width)
        statistics = empty_statistics(self.basis, self.options)
        for t, classes in enumerate(self.sets):
            source = self.sources[-1 if hidden else t]
            images = self.rows.take(np.flatnonzero(~self.test & (self.task == t)))
            candidates = np.arange(K) if hidden else classes
            task = TargetTask(
                views=images.views, cosines=images.cosines, clip=images.clip, classes=candidates
            )
            if rejecting:
                state, unknown = reject(state, task, self.sources[-1].embedding_means, candidates)
                task = task.take(np.flatnonzero(~unknown))
            if hidden:
                task = with_present_classes(self.basis, task, source, self.options, self.scale)
            statistics, done = adapt_task(
                self.basis, statistics, task, None, source=source, options=self.options, clip_scale=self.scale
            )  # fmt: skip
        test = self.tested()
        label = self.predicted(done.classifier, self.options, test).label
        if not rejecting:
            return label, np.zeros(len(label), bool), np.zeros(len(label))
        u = unknownness(state, test, self.sources[-1].embedding_means)
        return label, u > state.threshold, u

    def tested(self):
        """Return the test images."""
        return self.rows.take(np.flatnonzero(self.test & (self.task >= 0)))

    def predicted(self, classifier, options, rows):
        """Return the prediction after the last task."""
        features = kernel_rows(self.basis, rows, options.clip_in_kernel)
        return predict(
            features,
            rows.cosines,
            source=self.sources[-1],
            classifier=classifier,
            options=options,
            clip_scale=self.scale,
        )

    def baselines(self):
        """Yield name, labels, rejected and u of the test images of every baseline."""
        train = self.rows.take(np.flatnonzero(~self.test & (self.task >= 0)))
        sides = (train, self.tested())
        clip = [
            self.predicted(None, replace(self.options, predictor="clip"), x).fused for x in sides
        ]
        source = [
            self.predicted(None, replace(self.options, predictor="source"), x).fused for x in sides
        ]
        means = self.sources[-1].embedding_means
        near = []
        for x in sides:
            g = unit_rows(np.asarray(x.views["original"][np.arange(len(x))]))
            near.append(2 * g @ means.T - (means**2).sum(axis=1) - 1)  # −‖g − m‖²
        for name, scores, measure in (
            ("CLIP, maximum softmax (MCM)", clip, lambda p: -p.max(axis=1)),
            ("CLIP, entropy", clip, entropy),
            ("source model, maximum softmax", source, lambda p: -p.max(axis=1)),
            ("source model, entropy", source, entropy),
            ("nearest source mean, distance", near, lambda p: -p.max(axis=1)),
        ):
            u = measure(scores[1])
            yield name, scores[1].argmax(axis=1), u > otsu(measure(scores[0])), u


def thinned(domain):
    """Return row numbers, evenly spaced."""
    n = domain.vision.rows
    return np.arange(n) if n <= ROWS else np.unique(np.linspace(0, n - 1, ROWS).astype(int))


def main(only):
    """Print the tables; ``only`` are problems, all of the suite if there are none."""
    params = load_params()
    project, found = open_project(params), defaultdict(list)
    for name in only or params.problems:
        pair = params.problems[name]
        source, target = (project.labelled_domain(d) for d in (pair.source, pair.target))
        for seed in params.data.seeds:
            for space, private in spaces(target.all_classes).items():
                setting = Setting(source, target, private, seed, params.rff)
                labels = setting.labels[setting.test & (setting.task >= 0)]
                unknown = space in {"open", "universal"}

                def keep(method, label, rejected, u):
                    s = label_space_scores(labels, label, rejected, u)  # noqa: B023
                    found[space, method].append((s.shared, s.unknown, s.h_score, s.auroc))  # noqa: B023

                for hidden in (False, True):
                    ours = "ours, classes hidden" if hidden else "ours"
                    keep(ours, *setting.adapted(rejecting=unknown, hidden=hidden))
                for method, label, rejected, u in setting.baselines():
                    if unknown:
                        keep(method, label, rejected, u)
                    elif "entropy" not in method:
                        keep(method.split(",")[0], label, np.zeros_like(rejected), u)
        sys.stderr.write(f"{name}\n")
    print(
        "| label space | method | shared | unknown | H-score | AUROC |\n|---|---|---|---|---|---|"
    )
    for (space, method), values in found.items():
        cells = ("–" if np.isnan(v) else f"{100 * v:.1f}" for v in np.mean(values, axis=0))
        print(f"| {space} | {method} | {' | '.join(cells)} |")
    print(json.dumps({"problems": len(only or params.problems), "seeds": len(params.data.seeds)}))


if __name__ == "__main__":
    main(sys.argv[1:])
