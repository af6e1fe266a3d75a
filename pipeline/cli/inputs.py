"""Whether what params.yaml and suite.yaml name exists: methods, models, weights, images. No image is opened."""

import statistics
from collections import Counter
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path
from typing import NamedTuple

from pipeline.encoders.origin import find_checkpoint
from pipeline.encoders.preprocessing import Preprocessing
from pipeline.errors import InputError, ModelError, ParamsError, counted, did_you_mean, listed
from pipeline.params import SUITE_FILE, Params
from pipeline.problem.method_options import method_options
from pipeline.stage import domain_images
from pipeline.suite import Model

MEGABYTE = 1e6
PRESENT, MISSING, NOTE = "✓", "✗", "·"  # a note is no obstacle


class Finding(NamedTuple):
    """A line of `referee check` and `referee doctor`: what was looked at, and what to do about it, if anything."""

    mark: str
    subject: str
    remedy: str = ""

    def __str__(self) -> str:
        """Return the line without its mark."""
        return self.subject + (f" → {self.remedy}" if self.remedy else "")


def from_error(key: str, error: Exception) -> Finding:
    """Return an error, whose message ends in "; REMEDY", as a finding about a key."""
    subject, _, remedy = str(error).partition("; ")
    return Finding(MISSING, f"{key}: {subject}", remedy)


def check_values(params: Params) -> None:
    """Raise a `ParamsError` for values that only the modules using them can judge: methods, preprocessing, models."""
    from pipeline.comparison.registry import compared_method  # scipy: half a second

    method_options(params.method.variant, params.method.options)
    for name in params.compare.methods:
        compared_method(name)
    known = [field.name for field in fields(Preprocessing)]
    for key, model in params.models.items():
        for name in model.preprocessing:
            if name not in known:
                near = did_you_mean(name, known)
                raise ParamsError(f"{SUITE_FILE}: models.{key}.preprocessing.{name}: unknown key{near}")
        try:
            _require_known_model(model)
        except ModelError as error:
            raise ParamsError(f"{SUITE_FILE}: models.{key}.name: {error}") from None


def _require_known_model(model: Model) -> None:
    """Raise a `ModelError` where the library has no model of that name; weights are not looked at."""
    if model.library == "timm":
        from pipeline.encoders.timm_encoder import parse_name

        parse_name(model.name, model.kwargs)
    elif model.library == "open_clip":
        from pipeline.encoders.clip_encoder import HUB_PREFIX, read_configs

        if not model.name.startswith(HUB_PREFIX):
            read_configs(model.name.replace("/", "-"), Path(model.origin))


def weights(params: Params) -> Iterator[Finding]:
    """Yield one finding per model: its weights, or its file of embeddings."""
    for key, model in params.models.items():
        subject = f"models.{key}.origin: {model.origin}"
        if model.library == "imported":
            if Path(model.origin).exists():
                yield Finding(PRESENT, f"{subject}, embeddings by {model.name}")
            else:
                yield Finding(MISSING, f"{subject}: no such file", "put the embeddings there")
            continue
        try:
            checkpoint = find_checkpoint(Path(model.origin))
        except ModelError as error:
            yield from_error(f"models.{key}.origin", error)
            continue
        if checkpoint is None:
            yield Finding(
                NOTE,
                f"{subject}: holds no weights of {model.name}",
                "downloaded from the hub at first use; without a network see weights/README.md",
            )
        else:
            size = checkpoint.stat().st_size / MEGABYTE
            yield Finding(PRESENT, f"{subject}, {model.library} {model.name}, {size:,.1f} MB")


def images(params: Params, *, counts: bool = False) -> Iterator[Finding | str]:
    """Yield one finding per domain, and with ``counts`` a line per class below it."""
    classes_by_dataset: dict[str, dict[str, tuple[str, ...]]] = {}
    for key, domain in params.domains.items():
        if key in params.generated and not Path(domain.images).exists():
            yield Finding(NOTE, f"domains.{key}.images: {domain.images}", "`dvc repro` writes it")
            continue
        try:
            found = domain_images(params, key)
        except InputError as error:
            yield from_error(f"domains.{key}.images", error)
            continue
        if domain.labels == "none":
            subject = f"domains.{key}.images: {domain.images}"
            n = len(found.images)
            yield (
                Finding(PRESENT, f"{subject}, {counted(n, 'image')}, no labels")
                if n
                else Finding(MISSING, f"{subject}: no images", "put the images there, or remove it")
            )
            continue
        per_class = Counter(image.class_name for image in found.images)
        classes = tuple(sorted(params.datasets[domain.dataset].class_names) or found.class_names())
        classes_by_dataset.setdefault(domain.dataset, {})[key] = classes
        yield _domain(params, key, {name: per_class[name] for name in classes})
        if counts:
            yield from (f"{per_class[name]:>13,}  {name}" for name in classes)
    for dataset, by_domain in classes_by_dataset.items():
        yield from _different_classes(dataset, by_domain)


def _domain(params: Params, key: str, per_class: dict[str, int]) -> Finding:
    folder = params.domains[key].images
    subject = f"domains.{key}.images: {folder}"
    if not any(per_class.values()):
        return Finding(MISSING, f"{subject}: no images", "one folder per class is expected there")
    numbers = per_class.values()
    subject += (
        f", {counted(sum(numbers), 'image')}, {counted(len(per_class), 'class')} of "
        f"{min(numbers):,} to {max(numbers):,}, median {statistics.median(numbers):,.0f}"
    )
    empty = [name for name, count in per_class.items() if not count]
    if len(per_class) == 1:
        return Finding(NOTE, subject, "nothing to tell apart: name the folder above the class folders")
    if not empty:
        return Finding(PRESENT, subject)
    subject += f"; no images of {listed(empty)}"
    if params.data.empty_class == "report":
        return Finding(NOTE, subject)
    return Finding(MISSING, subject, "add images, or set data.empty_class: report in params.yaml")


def _different_classes(dataset: str, by_domain: dict[str, tuple[str, ...]]) -> Iterator[Finding]:
    """Yield a finding where two domains of a dataset have different classes: their labels would not agree."""
    first, *others = by_domain
    for other in others:
        differ = sorted(set(by_domain[first]) ^ set(by_domain[other]))
        if differ:
            yield Finding(
                MISSING,
                f"datasets.{dataset}: not both {first} and {other} have the classes {listed(differ)}",
                f"give class folders the same names, or name all classes in datasets.{dataset}.class_names",
            )
