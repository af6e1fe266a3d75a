"""Embedding images through the progress log, new images and refined views."""

import dataclasses
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

from dask_cluster import RealCluster
from pipeline.errors import InputError, ModelError, StoreError
from pipeline.extraction import embed
from pipeline.extraction.cluster import connected
from pipeline.extraction.embed import embed_images, embed_new_images
from pipeline.extraction.embedding_settings import EmbeddingSettings
from pipeline.extraction.images import examine_images, find_images
from pipeline.extraction.refine import refined_problem, tasks_to_refine, views_to_refine
from pipeline.method.adversarial_refinement import Ascent
from pipeline.method.frequency_views import ViewSettings
from pipeline.method.kernel_lda import Classifier
from pipeline.method.random_fourier_features import draw_basis
from pipeline.method.variants import MethodOptions
from pipeline.method.views import VIEWS
from pipeline.store.embedding_store import open_embeddings, write_embeddings
from shards import write_tar


@pytest.fixture
def settings(vit):
    return EmbeddingSettings(vit, ViewSettings(), device="cpu", workers=2)


@pytest.fixture
def images(photos):
    return examine_images(photos, max_pixels=10**6, workers=2)[0]


def embed_through_log(images, settings, folder, views=VIEWS, cluster=None):
    """Embed images through the log in ``folder``; return the rows by view and the summary."""
    with embed_images(images, views, settings, progress=folder, writer="a-vit", cluster=cluster) as embedded:
        rows = {view: np.concatenate(list(rows.shards)) for view, rows in embedded.views.items()}
    return rows, embedded.summary


@pytest.fixture
def store(images, settings, tmp_path):
    with embed_images(images, VIEWS, settings, progress=tmp_path / "log", writer="w") as embedded:
        attributes = {"domain": "a", **embedded.backbone, "rows_digest": "0"}
        write_embeddings(tmp_path / "vit.zarr", embedded.views, attributes)
    return open_embeddings(tmp_path / "vit.zarr")


def are_equal(left, right):
    return all(np.array_equal(left[view], right[view]) for view in left)


def test_rows_do_not_depend_on_workers_order_or_what_was_embedded_before(images, settings, tmp_path):
    whole, summary = embed_through_log(images, settings, tmp_path / "whole")
    assert "20 embedded now" in summary  # two files have the same content
    assert whole["rand"].shape == (21, 24)
    assert np.array_equal(whole["rand"][0], whole["rand"][20])
    embed_through_log(images[5:9], settings, tmp_path / "parts", ("zeros",))
    one_thread = dataclasses.replace(settings, workers=1)
    parts, summary = embed_through_log(images[::-1], one_thread, tmp_path / "parts")
    assert are_equal({view: rows[::-1] for view, rows in parts.items()}, whole)
    again, summary = embed_through_log(images, settings, tmp_path / "parts")
    assert "0 embedded now" in summary
    assert are_equal(again, whole)


@pytest.mark.slow
def test_a_cluster_gives_the_same_rows_from_shards(images, settings, tmp_path):
    local, _ = embed_through_log(images, settings, tmp_path / "local")
    shard = write_tar(tmp_path / "x.tar", {image.path.name: image.path.read_bytes() for image in images})
    images = examine_images(find_images([shard]), max_pixels=10**6, workers=2)[0]
    scratch = tmp_path / "project" / ".referee" / "scratch"
    with RealCluster(tmp_path / "cluster") as dask:
        dask.add_worker()
        with connected(dask.address, scratch, [shard]) as cluster:
            rows, summary = embed_through_log(images, settings, tmp_path / "log", cluster=cluster)
            assert "20 embedded now" in summary
            assert dask.address in summary
            damaged = dataclasses.replace(images[0], digest=bytes(32))
            with pytest.raises(InputError, match=r"x\.tar/00\.png: changed since.*\(on worker tcp://"):
                embed_through_log([damaged], settings, tmp_path / "log", cluster=cluster)
    assert are_equal(rows, local)


def test_rows_of_other_weights_or_view_settings_are_never_reused(images, settings, weights, tmp_path):
    embed_through_log(images, settings, tmp_path / "log")
    state, moved = load_file(weights / "vit/model.safetensors"), tmp_path / "moved.safetensors"
    save_file(state, moved)
    save_file({name: tensor * 1.5 for name, tensor in state.items()}, tmp_path / "other.safetensors")

    def with_backbone(**changes):
        return dataclasses.replace(settings, backbone=settings.backbone.model_copy(update=changes))

    louder = dataclasses.replace(settings, views=ViewSettings(noise="unit"))
    for changed, views, count in (
        (with_backbone(origin=str(moved)), VIEWS, 0),  # the same weights
        (with_backbone(origin=str(tmp_path / "other.safetensors")), VIEWS, 20),
        (louder, ("original", "zeros"), 0),  # the noise affects only `rand`
        (louder, VIEWS, 20),
        (with_backbone(stored_as="float32"), VIEWS, 20),
    ):
        _, summary = embed_through_log(images, changed, tmp_path / "log", views)
        assert f"; {count} embedded now" in summary


def test_new_images_get_the_rows_of_the_store_or_an_error(images, settings, store, monkeypatch):
    rows = embed_new_images(images[3:7], VIEWS, settings, store=store, model="vit")
    assert are_equal(rows, {view: store.read(view, 3, 7) for view in VIEWS})
    louder = dataclasses.replace(settings, views=ViewSettings(noise="unit"))
    with pytest.raises(StoreError, match=f"{store.path}.*'noise': 'unit'.*dvc repro"):  # weights, crop: test_predict
        embed_new_images(images, VIEWS, louder, store=store, model="vit")
    original = embed.ImageEmbedder.embed

    def damaged(self, batches):
        for batch, rows in original(self, batches):
            rows["original"][1] = np.nan
            yield batch, rows

    monkeypatch.setattr(embed.ImageEmbedder, "embed", damaged)
    with pytest.raises(ModelError, match=f"{images[1].path.name}: models.vit .* not finite"):
        embed_new_images(images[:3], ("original",), settings, store=store, model="vit")


def test_imported_models_and_single_views_cannot_be_refined():
    assert views_to_refine("a", ("original", "rand"), "vit", "timm") == ("rand",)
    with pytest.raises(ModelError, match=r"models\.vit is imported.*refinement\.steps: 0"):
        views_to_refine("a", ("original", "rand"), "vit", "imported")
    with pytest.raises(Exception, match=r"domains\.a\.views.*refinement\.steps: 0"):
        views_to_refine("a", ("original",), "vit", "timm")


@pytest.fixture(scope="module")
def classifier():
    rng = np.random.default_rng(0)
    return Classifier(5 * rng.normal(size=(40, 6)), rng.normal(size=6))


def test_refinement_without_steps_keeps_the_rows_of_embed_and_with_steps_changes_those_of_the_tasks(
    images, settings, tmp_path, classifier
):
    classes, train = np.array([1, 4, 5]), np.ones((2, len(images)), dtype=bool)
    train[0, :3] = train[1, 2:6] = False
    basis, task_rows = draw_basis(24, 40, 1.0, "gamma", seed=0), [np.arange(6 + seed, 12 + seed) for seed in range(2)]
    problem = SimpleNamespace(
        target=SimpleNamespace(
            hidden=False,
            label_space=None,
            class_sets=[classes],
            seeds=range(2),
            tasks=SimpleNamespace(test_mask=lambda seed: ~train[seed]),
        ),
        bases=SimpleNamespace(basis=lambda _index: basis),
        source_models=lambda _index: [SimpleNamespace(classifier=classifier)],
    )
    options, scratch = MethodOptions(clip_in_kernel=0.0), tmp_path / "scratch"
    labels = [[(rows, SimpleNamespace(label=classes[rows % 3]))] for rows in task_rows]

    def refined_views(steps, *, attention=False):
        with refined_problem(
            problem, options, images, ("zeros", "rand"), settings, scratch=scratch,
            ascent=Ascent(steps, 0.01, 0.03), attention=attention, for_each_seed=lambda _function: labels,
        ) as result:  # fmt: skip
            views = {view: np.load(file) for view, file in result.views.items()}
        assert not list(scratch.iterdir())
        return views

    plain, _ = embed_through_log(images, settings, tmp_path / "log")
    for view, rows in refined_views(0).items():
        for seed in range(2):
            assert np.array_equal(rows[seed, train[seed]], plain[view][train[seed]])
            assert np.isnan(rows[seed, ~train[seed]]).all()
    for view, rows in refined_views(0, attention=True).items():
        for seed in range(2):
            assert not np.isclose(rows[seed, train[seed]], plain[view][train[seed]], atol=1e-3).all(1).any()
            np.testing.assert_array_equal(np.isnan(rows[seed]).all(1), ~train[seed])
    for view, rows in refined_views(2).items():
        for seed in range(2):
            filled = ~np.isnan(rows[seed]).any(axis=1)
            assert np.flatnonzero(filled).tolist() == task_rows[seed].tolist()
            assert not np.isclose(rows[seed, filled], plain[view][filled], atol=1e-3).all(1).any()


def test_with_clip_in_the_kernel_labels_include_the_image_number(classifier):
    basis = draw_basis(24, 40, 1.0, "gamma", seed=0, d_clip=16)
    problem = SimpleNamespace(
        target=SimpleNamespace(class_sets=[np.array([1, 4, 5])], clip_rows=np.ones((10, 16))),
        bases=SimpleNamespace(basis=lambda _index: basis),
        source_models=lambda _index: [SimpleNamespace(classifier=classifier)],
    )
    labels = [(np.array([7, 9]), SimpleNamespace(label=np.array([5, 1])))]
    (task,) = tasks_to_refine(problem, MethodOptions(clip_in_kernel=0.5), labels, 0)
    assert task.labels.tolist() == [[2, 0], [0, 1]]
    assert task.branch.scores(torch.ones(2, 24), torch.arange(2)).shape == (2, 3)
