"""Write a domain's features to one file for other programs.

The file contains the float32 rows of one view, with the path and the class of
each image. Formats: npz for numpy; parquet for pandas, Hugging Face datasets,
autofaiss and embedding-reader; safetensors for torch and others. Paths and
labels are omitted for domains listed in `data.private`.

reads:  params.yaml, suite.yaml, and in cache/: manifests/DOMAIN,
        embeddings/DOMAIN/MODEL.zarr; no images, no weights
writes: FILE, atomically; the same features give the same bytes
examples:
  referee export-features mnist vit --format parquet
  referee export-features mnist clip --view zeros -o clip.safetensors
"""

from argparse import ArgumentParser
from collections.abc import Iterator
from pathlib import Path

from pipeline.errors import InputError, counted

SUFFIXES = ("npz", "parquet", "safetensors")


def export_features(domain: str, model: str, *, view: str, form: str | None, output: Path | None) -> Iterator[str]:
    """Export a domain's features, omitting anything that reveals a class if the domain is private."""
    from pipeline.api.feature_cache import open_cache
    from pipeline.datasets.manifest_files import is_private
    from pipeline.datasets.task_files import is_labelled
    from pipeline.paths import manifest
    from pipeline.store.embedding_store import BACKBONE
    from pipeline.store.exported_features import ExportedFeatures, write_features

    if form is None:
        form = output.suffix.removeprefix(".") if output else "npz"
    if form not in SUFFIXES:
        raise InputError(f"--output {output}: name a .npz, .parquet or .safetensors file, or use --format")
    path = output or Path(f"{domain}-{model}.{form}")
    if path.is_dir():
        raise InputError(f"--output {path}: this is a folder; name a file in it")
    cache = open_cache(".")
    rows = cache.rows(domain, model, view)
    backbone = {key: rows.provenance.get(key) for key in BACKBONE}
    about = {"domain": domain, "model": model, "view": view, "backbone": backbone}
    folder = manifest(domain)
    if domain in cache.params.data.private or is_private(folder):
        features, extras = ExportedFeatures(rows, about), " (the domain is private: no paths, no labels)"
    elif is_labelled(folder):
        features, extras = ExportedFeatures(rows, about, rows.paths, rows.labels, rows.classes), ", paths, labels"
    else:
        features, extras = ExportedFeatures(rows, about, rows.paths), ", paths"
    write_features(path, form, features)
    n, d = rows.shape
    yield f"{path}: {counted(n, 'row')} of {d} numbers{extras}"


def add_arguments(parser: ArgumentParser) -> None:
    """Add the options of the command."""
    parser.add_argument("domain", metavar="DOMAIN", help="a key of `domains` in suite.yaml")
    parser.add_argument("model", metavar="MODEL", help="a key of `models` in suite.yaml")
    parser.add_argument("--view", default="original", help="the view to export (default: original)")
    parser.add_argument("--format", dest="form", choices=SUFFIXES, help="default: the suffix of --output, else npz")
    parser.add_argument("-o", "--output", metavar="FILE", type=Path, help="output file (default: DOMAIN-MODEL.FORMAT)")
