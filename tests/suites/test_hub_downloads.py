"""Read datasets written by the real libraries: Hugging Face's Parquet files and WebDataset's shards."""

import io
import shutil

import numpy as np
import pytest
from PIL import Image

from pipeline.cli.use import use
from pipeline.config.params import load_params
from pipeline.datasets.sources.choose import find_in
from pipeline.datasets.sources.source import DomainSettings
from pipeline.image_files.read import read_bytes
from pipeline.stage import domain_images
from small_project import ROOT

datasets = pytest.importorskip("datasets", reason="Hugging Face's datasets is not installed")


def png(seed):
    buffer = io.BytesIO()
    pixels = np.random.default_rng(seed).integers(0, 256, (4, 5, 3), dtype=np.uint8)
    Image.fromarray(pixels).save(buffer, "png")
    return buffer.getvalue()


def write_download(folder, classes, domains, domain_feature):
    """Write one image per class and domain in two files, like the dataset on the Hub."""
    features = {"image": datasets.Image(), "domain": domain_feature}
    features["label"] = datasets.ClassLabel(names=classes)
    pairs = [(domain, label) for label in range(len(classes)) for domain in domains]
    images = [{"bytes": png(seed), "path": "00001.png"} for seed in range(len(pairs))]
    columns = {"image": images, "domain": [d for d, _ in pairs], "label": [c for _, c in pairs]}
    dataset = datasets.Dataset.from_dict(columns, features=datasets.Features(features))
    folder.mkdir(parents=True)
    for number in range(2):
        part = dataset.shard(2, number, contiguous=True)
        part.to_parquet(folder / f"train-{number:05}-of-00002.parquet", batch_size=10)
    return [image["bytes"] for image in images]


@pytest.mark.parametrize(
    ("suite", "domains", "is_class_label"),
    [
        ("officehome", ("Art", "Clipart", "Product", "Real World"), False),
        ("domainnet", ("clipart", "infograph", "painting", "quickdraw", "real", "sketch"), True),
    ],
)
def test_suite_reads_the_files_of_the_hub(tmp_path, suite, domains, is_class_label):
    shutil.copytree(ROOT / "suites", tmp_path / "suites")
    shutil.copy(ROOT / "params.yaml", tmp_path)
    use(suite, tmp_path)
    folders = load_params(tmp_path).datasets[suite].class_names
    classes = sorted((name.replace("_", " ") for name in folders), key=str.lower)
    domain_feature = datasets.ClassLabel(names=list(domains)) if is_class_label else datasets.Value("string")
    contents = write_download(tmp_path / "data" / suite / "data", classes, domains, domain_feature)
    use(suite, tmp_path, force=True)
    params = load_params(tmp_path)
    read = []
    for key, domain in params.domains.items():
        assert domain.images == f"data/{suite}/data"
        absolute = domain.model_copy(update={"images": str(tmp_path / domain.images)})
        found = domain_images(params.model_copy(update={"domains": {**params.domains, key: absolute}}), key)
        # each class occurs once, spelled as in the suite, although the file numbers classes in another order
        assert sorted(image.class_name for image in found.images) == sorted(folders)
        read += [read_bytes(image.path) for image in found.images]
    assert len(set(read)) == len(read)
    assert set(read) <= set(contents)


def test_shards_written_by_webdataset_are_read(tmp_path):
    webdataset = pytest.importorskip("webdataset", reason="webdataset is not installed")
    contents = [png(seed) for seed in range(7)]
    with webdataset.ShardWriter(str(tmp_path / "%06d.tar"), maxcount=3, verbose=0) as writer:
        for i, data in enumerate(contents):
            label = {"cls": i % 2} if i < 5 else {"json": {"label": "dog", "task": 1}}
            writer.write({"__key__": f"sample{i:04}", "png": data, **label})
    found = find_in(tmp_path, DomainSettings(class_names=("cat", "dog")))
    assert [image.class_name for image in found.images] == ["cat", "dog"] * 2 + ["cat", "dog", "dog"]
    assert [read_bytes(image.path) for image in found.images] == contents
    assert found.images[0].path.relative_to(tmp_path).as_posix() == "000000.tar/sample0000.png"
