"""Test that a stream over the tasks of a benchmark problem gives the same statistics and predictions as `adapt`."""

import shutil
from dataclasses import fields
from pathlib import Path

import numpy as np
import pytest

from pipeline import paths
from pipeline.config.params import load_params
from pipeline.datasets.manifest_files import read_images
from pipeline.method.adaptation import Referee, adapt_task
from pipeline.method.class_statistics import ClassStatistics
from pipeline.method.kernel_rows import kernel_rows
from pipeline.method.prediction import predict
from pipeline.method.prepared_tasks import prepared_tasks
from pipeline.method.task_statistics import empty_statistics
from pipeline.method.zero_shot import cosines
from pipeline.problem.method_options import method_options
from pipeline.stage import open_project
from pipeline.store.stream_state import SCHEMA, read_stream_state
from pipeline.store.target_store import open_target, read_classifiers
from shards import files_in
from stream_project import CLASSES, add_domain, prepare, run, step_entry

SEED = 0


def test_the_schema_lists_all_sums_of_the_class_statistics():
    """A state that lacks a sum cannot be continued: for a new sum raise SCHEMA, and read old states or say so."""
    names = [field.name for field in fields(ClassStatistics)]
    assert (SCHEMA, names) == ("referee-stream/2", ["count", "weight", "squared_weight", "sums", "scatter"])


def benchmark_as_stream(project):
    """Add a domain per task with the train images of the target's first seed, and run a stream over them."""
    params = project.read_params()
    target = open_project(load_params()).domain("right")
    images = read_images(target.manifest)
    before = "source/left"
    for task, classes in enumerate(target.class_sets):
        name = f"task{task + 1}"
        for row in target.train_index(SEED, task):
            path = project.folder / images[row].path
            copy = project.folder / "data" / name / path.parent.name / path.name
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(path, copy)
        add_domain(params, name, labels="none")
        entry = step_entry(before, name, [CLASSES[c] for c in classes], source_task=task + 1)
        params["steps"][f"right-{name}"] = entry
        before = f"streams/right-{name}"
    project.write_params(params)
    for task in range(2):
        prepare(project, f"task{task + 1}")
        run(project, f"step right-task{task + 1}")


def adapted_statistics(problem, options):
    """Yield the statistics and rejection sums of the first seed after each task, which `adapt` does not store."""
    target, basis = problem.target, problem.bases.basis(0)
    statistics, referee = empty_statistics(basis, options), Referee(basis, options, target.prompts.logit_scale)
    tasks = [target.task(SEED, task, options.views) for task in range(2)]
    sources = problem.source_models(0, with_scatter=options.source_covariance)
    directions = None if options.reject == "none" else problem.class_directions(0)
    for task in prepared_tasks(referee, tasks, sources, directions=directions):
        statistics, _ = adapt_task(referee, task.images, task.source, statistics)
        yield statistics, task.rejection


@pytest.mark.parametrize("changes", [{}, {"rounds": 0}, {"class_priors": "counted", "ridge": 0.5}, {"reject": "joint"}])
def test_a_stream_gives_the_same_statistics_and_predictions_as_adapt(project, changes):
    project.change_params(method={"options": changes})
    run(project, "source left")
    benchmark_as_stream(project)
    run(project, "adapt left-right")
    params = load_params()
    options = method_options(params.method.variant, params.method.options)
    problem = open_project(params).problem("left-right")
    target, basis = problem.target, problem.bases.basis(0)
    classifiers = read_classifiers(open_target(paths.target_model("left-right")), 0)
    sources = list(problem.source_models(0))
    rows = target.rows(target.test_index(SEED), options.views)
    for task, (expected, rejection) in enumerate(adapted_statistics(problem, options)):
        state = read_stream_state(paths.stream_state(f"right-task{task + 1}"))
        assert state.classes == CLASSES[: 2 * task + 2]
        if rejection is not None:  # by all classes of the source, including those of later tasks
            for name, sums in vars(rejection).items():
                np.testing.assert_allclose(getattr(state.rejection, name), sums, rtol=1e-12, err_msg=name)
        arrays = state.statistics.totals.to_arrays()
        for name, array in expected.totals.to_arrays().items():
            np.testing.assert_allclose(arrays[name], array, rtol=1e-12, atol=1e-12, err_msg=name)
        np.testing.assert_allclose(state.statistics.prior_means, expected.prior_means, rtol=1e-12, atol=1e-12)
        features = kernel_rows(basis, rows, options.clip_in_kernel)
        similarity, scale = cosines(rows.clip, state.prompts.text), target.prompts.logit_scale
        from_stream, from_adapt = (
            predict(features, similarity, sources[task], classifier, options, scale)
            for classifier in (state.classifier, classifiers[task])
        )
        assert (from_stream.label == from_adapt.label).all()
        np.testing.assert_allclose(from_stream.fused, from_adapt.fused, rtol=0, atol=1e-9)


def test_another_class_order_changes_labels_and_models_but_not_embeddings(project):
    toy = project.read_params()["datasets"]["toy"]
    project.change_params(datasets={"toy": toy | {"tasks": [["dog", "ant"], ["cat", "bee"]]}})
    before = files_in(project.folder / "cache/embeddings")
    prepare(project, "left", "right")
    assert files_in(project.folder / "cache/embeddings") == before
    run(project, "source left", "adapt left-right", "evaluate left-right")
    target = open_project(load_params()).source_domain("right")
    assert target.class_names == ["dog", "ant", "cat", "bee"]
    images = read_images(target.manifest)
    names = [target.class_names[label] for label in target.labels]
    assert names == [Path(image.path).parent.name for image in images]
    assert open_target(paths.target_model("left-right")).attribute("classes", list) == target.class_names
