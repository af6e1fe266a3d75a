"""Stage `adapt@PROBLEM`: the target's statistics and classifier after each task, steps 6 to 9.

Reads the target's embeddings of all views, its pseudo-labels, and the source *model*: no source row, no label of either
side. Tasks in order; what is earlier lives on in the statistics alone. Writes cache/target/PROBLEM.zarr.
"""

from __future__ import annotations

import argparse
import sys

from pipeline.errors import exits_cleanly
from pipeline.method.adaptation import adapt_task
from pipeline.method.kernel_lda import Classifier
from pipeline.method.source_model import accumulator
from pipeline.params import load_params
from pipeline.stages import places
from pipeline.stages.method_options import method_options
from pipeline.stages.target_rows import read_target
from pipeline.store.array_store import open_arrays, write_arrays
from pipeline.store.basis_file import read_bases
from pipeline.store.classifier_store import classifier_arrays
from pipeline.store.pseudo_label_store import SCHEMA as LABELS
from pipeline.store.pseudo_label_store import Placed, label_arrays, read_labels_of_seed
from pipeline.store.source_store import read_source

SCHEMA = "referee-target/1"


@exits_cleanly
def main(argv: list[str] | None = None) -> int:
    """Write cache/target/PROBLEM.zarr."""
    parser = argparse.ArgumentParser(prog="python -m pipeline.stages.adapt", description=__doc__)
    parser.add_argument("problem", metavar="PROBLEM", help="a key of `problems` in params.yaml")
    name = parser.parse_args(argv).problem
    params = load_params()
    problem, options = params.problems[name], method_options(params.method)
    rows = read_target(params, problem.target, options.views)
    bases = read_bases(places.bases(problem.source))
    first_labels = open_arrays(places.pseudo_labels(name), LABELS)
    classifiers: list[list[Classifier]] = []
    last_labels: list[list[Placed]] = []
    for index, seed in enumerate(rows.tasks.seeds):
        basis = bases.basis(index)
        of_seed = read_labels_of_seed(first_labels, index)
        running = accumulator(basis, options, source=False)
        classifiers.append([])
        last_labels.append([])
        source = read_source(
            places.source_model(problem.source),
            index,
            rows.class_names,
            with_scatter=options.source_covariance,
        )
        for task, model in enumerate(source):
            target, place = rows.train_task(seed, task), rows.train_rows(seed, task)
            running, adapted = adapt_task(
                basis,
                running,
                target,
                of_seed.of(place, len(target.classes)),
                source=model,
                options=options,
                clip_scale=rows.clip_scale,
            )
            classifiers[-1].append(adapted.classifier)
            last_labels[-1].append((place, adapted.labels))
    arrays = {**classifier_arrays(classifiers), **label_arrays(last_labels, len(rows.cosines))}
    seen = [len(classifier.b) for classifier in classifiers[0]]
    write_arrays(
        places.target_model(name),
        SCHEMA,
        arrays,
        {"problem": name, "seen": seen, "classes": rows.class_names},
    )
    sys.stdout.write(f"adapt {name}: {len(seen)} tasks, {len(classifiers)} seeds\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
