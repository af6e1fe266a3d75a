"""Validate params.yaml and suite.yaml before anything runs.

Reads both files and looks for the models, weights and images that they name.
Each error is one line with the key and how to fix it; the exit status is then
2. `make repro` runs this command first, because DVC does not say what to do
about a missing folder.

reads:  params.yaml, suite.yaml; lists image folders, opens no image
writes: nothing
examples:
  referee check
  referee check --quiet && dvc repro
"""

import statistics
from argparse import ArgumentParser
from collections import Counter
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path
from typing import NamedTuple

from pipeline.config.params import SUITE_FILE, Params, load_params
from pipeline.encoders.origin import find_checkpoint
from pipeline.encoders.preprocessing import Preprocessing
from pipeline.errors import InputError, ModelError, ParamsError, counted, did_you_mean, listed
from pipeline.problem.method_options import method_options
from pipeline.stage import domain_images

PRESENT, MISSING, NOTE, DETAIL = "✓", "✗", "·", " "  # a note is not a failure


class Finding(NamedTuple):
    """A line printed by `referee check` or `referee doctor`: what was checked and, if needed, how to fix it."""

    mark: str
    subject: str
    remedy: str = ""

    def __str__(self) -> str:
        """Return the line without the mark."""
        return self.subject + (f" → {self.remedy}" if self.remedy else "")


def error_finding(key: str, error: Exception) -> Finding:
    """Return a finding about a key from an error whose message ends in "; REMEDY"."""
    subject, _, remedy = str(error).partition("; ")
    return Finding(MISSING, f"{key}: {subject}", remedy)


def check_values(params: Params) -> None:
    """Raise ParamsError if a method, preprocessing key or model is unknown, which the schemas do not check."""
    from pipeline.comparison.registry import compared_method  # imports scipy: half a second

    method_options(params.method.variant, params.method.options)
    for name in params.compare.methods:
        compared_method(name)
    known = [field.name for field in fields(Preprocessing)]
    for key, model in params.models.items():
        for name in model.preprocessing:
            if name not in known:
                hint = did_you_mean(name, known)
                raise ParamsError(f"{SUITE_FILE}: models.{key}.preprocessing.{name}: unknown key{hint}")
        try:
            if model.library == "timm":
                from pipeline.encoders.timm_encoder import parse_name

                parse_name(model.name, model.kwargs)
            elif model.library == "open_clip":
                from pipeline.encoders.clip_encoder import HUB_PREFIX, read_configs

                if not model.name.startswith(HUB_PREFIX):
                    read_configs(model.name.replace("/", "-"), Path(model.origin))
        except ModelError as error:
            raise ParamsError(f"{SUITE_FILE}: models.{key}.name: {error}") from None


def check_weights(params: Params) -> Iterator[Finding]:
    """Yield one finding per model, about its weights or its imported embeddings."""
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
            yield error_finding(f"models.{key}.origin", error)
            continue
        if checkpoint is None:
            remedy = "downloaded from the hub at first use; without a network see weights/README.md"
            yield Finding(NOTE, f"{subject}: no weights of {model.name}", remedy)
        else:
            megabytes = checkpoint.stat().st_size / 1e6
            yield Finding(PRESENT, f"{subject}, {model.library} {model.name}, {megabytes:,.1f} MB")


def check_images(params: Params, *, counts: bool = False) -> Iterator[Finding]:
    """Yield a finding per domain, per class with ``counts``, and per pair of domains whose classes differ."""
    classes_by_dataset: dict[str, dict[str, tuple[str, ...]]] = {}
    for key, domain in params.domains.items():
        subject = f"domains.{key}.images: {domain.images}"
        if key in params.generated and not Path(domain.images).exists():
            yield Finding(NOTE, subject, "`dvc repro` writes it")
            continue
        try:
            found = domain_images(params, key)
        except InputError as error:
            yield error_finding(f"domains.{key}.images", error)
            continue
        if domain.labels == "none":
            if found.images:
                yield Finding(PRESENT, f"{subject}, {counted(len(found.images), 'image')}, no labels")
            else:
                yield Finding(MISSING, f"{subject}: no images", "put the images there, or remove the domain")
            continue
        counter = Counter(image.class_name for image in found.images)
        classes = tuple(sorted(params.datasets[domain.dataset].class_names) or found.class_names())
        classes_by_dataset.setdefault(domain.dataset, {})[key] = classes
        per_class = {name: counter[name] for name in classes}
        yield _class_finding(subject, per_class, empty_is_fine=params.data.empty_class == "report")
        if counts:
            yield from (Finding(DETAIL, f"{count:>9,}  {name}") for name, count in per_class.items())
    for dataset, classes_by_domain in classes_by_dataset.items():
        first, *others = classes_by_domain
        for other in others:  # labels would mean different classes
            if unmatched := sorted(set(classes_by_domain[first]) ^ set(classes_by_domain[other])):
                yield Finding(
                    MISSING,
                    f"datasets.{dataset}: classes not in both {first} and {other}: {listed(unmatched)}",
                    f"give class folders the same names, or list all classes in datasets.{dataset}.class_names",
                )


def _class_finding(subject: str, per_class: dict[str, int], *, empty_is_fine: bool) -> Finding:
    if not any(per_class.values()):
        return Finding(MISSING, f"{subject}: no images", "add one folder per class")
    numbers = per_class.values()
    subject += (
        f", {counted(sum(numbers), 'image')}, {counted(len(per_class), 'class')} of "
        f"{min(numbers):,} to {max(numbers):,}, median {statistics.median(numbers):,.0f}"
    )
    if len(per_class) == 1:
        return Finding(NOTE, subject, "only one class: name the folder that contains the class folders")
    if all(numbers):
        return Finding(PRESENT, subject)
    subject += f"; no images of {listed(name for name, count in per_class.items() if not count)}"
    if empty_is_fine:
        return Finding(NOTE, subject)
    return Finding(MISSING, subject, "add images, or set data.empty_class: report in params.yaml")


def check(*, quiet: bool) -> Iterator[str]:
    """Validate both files; raise InputError if anything that they name is missing."""
    params = load_params()
    check_values(params)
    weight_findings = list(check_weights(params))
    if missing := [str(line) for line in (*weight_findings, *check_images(params)) if line.mark == MISSING]:
        raise InputError("\n".join(missing))
    if not quiet:
        yield from (f"note: {line}" for line in weight_findings if line.mark == NOTE)
        contents = f"{counted(len(params.domains), 'domain')}, {counted(len(params.models), 'model')}"
        yield f"params.yaml, suite.yaml: suite {params.suite}, {contents}: nothing is missing"


def add_arguments(parser: ArgumentParser) -> None:
    """Add the options of the command."""
    parser.add_argument("--quiet", action="store_true", help="print only errors")
