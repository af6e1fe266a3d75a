"""Classify new images with an adapted model.

Each image is cropped, embedded by both frozen backbones and classified exactly
as the test images are, among the classes of all tasks so far.

The output shows two classifiers: KLDA, the adapted one, uses the features of
the vision model (and by default CLIP's image features), and CLIP classifies
zero-shot by class names. By default, class and confidence are those of KLDA;
some variants combine the two (`method.options.fusion_test`).

reads:  params.yaml, suite.yaml, the weights of both models, and in cache/:
        target/PROBLEM.zarr, bases, source, prompts, embeddings
        (`dvc repro` computes them, `dvc pull` fetches them)
writes: FILE, with --output; atomically
examples:
  referee predict --problem mnist-uci photo.png
  referee predict --problem mnist-uci --top 5 --output labels.json photos/
  referee predict --problem mnist-uci --after-task 2 --seed 1 photos/ a.jpg
  referee predict --stream camera --after week2 photo.jpg
"""

from __future__ import annotations

import csv
import io
import json
import sys
from argparse import ArgumentParser, ArgumentTypeError
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from pipeline import paths
from pipeline.config.params import Params, load_params
from pipeline.errors import InputError, ParamsError, counted
from pipeline.problem.step_tables import DIGITS, UNKNOWN_CLASS
from pipeline.report.table_formats import align
from pipeline.write_aside import write_text

if TYPE_CHECKING:
    from pipeline.extraction.images import Image
    from pipeline.method.prediction import Prediction
    from pipeline.method.rows import Matrix
    from pipeline.problem.adapted_model import AdaptedModel


def choose_format(form: str | None, output: Path | None) -> str:
    """Return the requested format, else that of the output's suffix, else "table"; raise InputError if unknown."""
    if output is None:
        return form or "table"
    if output.is_dir():
        raise InputError(f"--output {output}: this is a folder; name a file in it")
    suffix = output.suffix.lower().removeprefix(".")
    if form is None and suffix not in ("csv", "json", "txt"):
        raise InputError(f"--output {output}: no format {suffix!r}; name a .csv, .json or .txt file, or use --format")
    return form or {"txt": "table"}.get(suffix, suffix)


def open_model(
    *, problem: str | None, stream: str | None, after: str | None, after_task: int | None, seed: int | None
) -> AdaptedModel:
    """Open the adapted model chosen by the options of `add_model_choice`."""
    from pipeline.api.feature_cache import open_cache

    cache = open_cache(".")
    if problem is not None:
        if after is not None:
            raise ParamsError("--after: requires --stream; for a problem, name a task with --after-task")
        return cache.model(problem, after=after_task, seed=seed)
    if seed is not None or after_task is not None:
        raise ParamsError("--seed, --after-task: require --problem; a stream has one seed, and --after names a step")
    return cache.stream_model(str(stream), after=after)


def usable_images(inputs: list[Path], params: Params, *, skip: bool) -> tuple[list[Image], dict[Path, str]]:
    """Return the readable images, and by path why others are unreadable: an InputError unless ``skip``."""
    from pipeline.extraction import images

    data, runtime, found = params.data, params.runtime, images.find_images(inputs)
    usable, unreadable = images.examine_images(found, max_pixels=data.max_pixels, workers=runtime.workers)
    if unreadable and not (skip and usable):
        remedy = "; classify the others with --unreadable skip" if usable else ""
        raise InputError("\n".join(unreadable.values()) + remedy)
    for reason in unreadable.values():
        sys.stderr.write(f"referee: skipped: {reason}\n")
    return usable, unreadable


def model_facts(model: AdaptedModel, params: Params) -> dict[str, Any]:
    """Describe the model that classified the images, as plain values."""
    target = model.problem.target
    return {
        "problem": model.problem.name,
        "after_task": model.after_task,
        "tasks": model.tasks,
        "seed": model.seed,
        "variant": params.method.variant,
        "D": model.basis.D,
        "vision": {"model": params.vision, "weights": target.vision.provenance.get("weights")},
        "language": {"model": params.language, "weights": target.clip.provenance.get("weights")},
        "classes": list(model.classes_seen),
    }


def predicted_images(
    images: Sequence[str], prediction: Prediction, classes: Sequence[str], top: int
) -> list[dict[str, Any]]:
    """Return one prediction per image as plain values.

    ``class`` and ``confidence`` are the fused prediction, or ``unknown`` and its confidence. ``klda`` and ``clip`` hold
    the class that each branch prefers. ``top`` lists the ``top`` most probable of the classes seen, best first.
    """
    # stable: the first of several equally probable classes leads, as with argmax
    order = np.argsort(-prediction.fused, axis=1, kind="stable")[:, :top]
    by_branch = {"confidence": prediction.fused, "klda": prediction.klda, "clip": prediction.clip}
    probability = {name: p.round(DIGITS).tolist() for name, p in by_branch.items()}
    preferred = {name: by_branch[name].argmax(axis=1) for name in ("klda", "clip")}
    predictions = []
    for i, image in enumerate(images):
        candidates = [{"class": classes[c], **{name: p[i][c] for name, p in probability.items()}} for c in order[i]]
        best = {key: candidates[0][key] for key in ("class", "confidence")}
        if prediction.unknown is not None and prediction.rejected[i]:
            best = {"class": UNKNOWN_CLASS, "confidence": round(float(prediction.unknown[i]), DIGITS)}
        branches = {
            name: {"class": classes[c[i]], "probability": probability[name][i][c[i]]} for name, c in preferred.items()
        }
        predictions.append({"image": image, **best, **branches, "top": candidates})
    return predictions


def to_csv(predictions: Sequence[Mapping[str, Any]]) -> str:
    """Return CSV with one line per image and rank; the prediction has rank 1, and `unknown` only a confidence."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(("image", "rank", "class", "confidence", "klda", "clip"))
    for image in predictions:
        answers = [tuple(candidate.values()) for candidate in image["top"]]
        if image["class"] != answers[0][0]:
            answers.insert(0, (UNKNOWN_CLASS, image["confidence"], "", ""))
        writer.writerows((image["image"], rank, *answer) for rank, answer in enumerate(answers, start=1))
    return text.getvalue()


def to_text(predictions: Sequence[Mapping[str, Any]], headings: tuple[str, str]) -> str:
    """Return a table with one line per image; ``headings`` name the columns of the two branches."""
    rows: list[Sequence[str]] = [("image", "class", "confidence", *headings, "next")]
    for image in predictions:
        branches = (f"{image[b]['class']} {image[b]['probability']:.1%}" for b in ("klda", "clip"))
        others = ", ".join(f"{c['class']} {c['confidence']:.1%}" for c in image["top"][1:])
        rows.append((image["image"], image["class"], f"{image['confidence']:.1%}", *branches, others or "-"))
    header, *lines = aligned = align(rows, left=len(rows[0]))
    return "\n".join([header, "-" * max(map(len, aligned)), *lines]) + "\n"


def predict(
    images: list[Path], *, top: int, form: str | None, output: Path | None, unreadable: str, **choice: Any
) -> Iterator[str]:
    """Classify the images and write the predictions to the terminal or to a file."""
    from pipeline.extraction.embed import embed_new_images
    from pipeline.method.backbone_weights import join_models
    from pipeline.stage import embedding_settings
    from pipeline.store.embedding_store import open_embeddings

    form = choose_format(form, output)
    params = load_params()
    model = open_model(**choice)
    target, language = model.problem.target, params.language
    vision_models = params.models_of(params.vision)
    for name in (*vision_models, language):
        if params.models[name].library == "imported":
            raise ParamsError(
                f"suite.yaml: models.{name}: its embeddings were computed elsewhere, so images cannot be embedded "
                "here; use `referee export` and embed them where the others were"
            )
    # before the backbones are loaded, so that an unreadable image is reported at once
    usable, skipped = usable_images(images, params, skip=unreadable == "skip")

    def embed(name: str, views: Sequence[str]) -> dict[str, Matrix]:
        store = open_embeddings(target.root / paths.embeddings(target.name, name))
        settings = embedding_settings(params, name)
        return embed_new_images(usable, views, settings, store=store, model=name)

    views, *others = (embed(name, model.views) for name in vision_models)
    if others:
        views = {
            v: join_models([views[v], *(rows[v] for rows in others)]).astype(target.vision.dtype(v))
            for v in model.views
        }
    prediction = model.predict(views, embed(language, ("original",))["original"])
    names = [str(image.path) for image in usable]
    predictions = predicted_images(names, prediction, model.classes_seen, top)
    if form == "csv":
        text = to_csv(predictions)
    elif form == "json":
        reasons = {str(path): reason for path, reason in skipped.items()}
        content = {"model": model_facts(model, params), "images": predictions, "unreadable": reasons}
        text = json.dumps(content, indent=2, ensure_ascii=False) + "\n"
    else:
        state = "" if choice["stream"] else f", after task {model.after_task} of {model.tasks}, seed {model.seed}"
        title = f"{model.problem.name}{state}: {counted(len(model.classes_seen), 'class')}"
        table = to_text(predictions, (f"KLDA ({params.vision})", f"CLIP ({params.language})"))
        text = f"{title}\n\n{table}"
    if output is None:
        yield text.removesuffix("\n")
        return
    write_text(output, text)
    yield f"{output}: {counted(len(names), 'image')}"


def add_arguments(parser: ArgumentParser) -> None:
    """Add the options of the command."""
    parser.add_argument("images", metavar="IMAGE", type=Path, nargs="+", help="image files, or folders of them")
    add_model_choice(parser)
    parser.add_argument("--top", metavar="K", type=_positive, default=3, help="classes listed per image (default: 3)")
    parser.add_argument(
        "--format", dest="form", choices=("table", "csv", "json"), help="default: the suffix of --output, else table"
    )
    parser.add_argument("-o", "--output", metavar="FILE", type=Path, help="a .csv, .json or .txt file")
    parser.add_argument(
        "--unreadable",
        choices=("stop", "skip"),
        default="stop",
        help="stop: list all unreadable images and exit with status 2 (default); "
        "skip: list them on stderr and classify the others",
    )


def add_model_choice(parser: ArgumentParser) -> None:
    """Add the options that choose an adapted model."""
    source = parser.add_mutually_exclusive_group(required=True)
    source.add_argument("--problem", metavar="PROBLEM", help="a key of `problems` in suite.yaml")
    source.add_argument("--stream", metavar="STREAM", help="name of a stream: keys of `steps` are STREAM-STEP")
    parser.add_argument("--after", metavar="STEP", help="the model after this step of the stream (default: the newest)")
    parser.add_argument(
        "--after-task", metavar="T", type=int, help="the model after task T = 1, 2, … (default: the last)"
    )
    parser.add_argument("--seed", type=int, help="one of `data.seeds` in params.yaml (default: the first)")


def _positive(text: str) -> int:
    number = int(text)
    if number < 1:
        raise ArgumentTypeError(f"{number} is not a positive integer")
    return number
