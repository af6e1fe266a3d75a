"""Tiny image sets laid out exactly as each of the four datasets unpacks: the same folders, file names and lists."""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from small_project import draw_image

PER_CLASS = 3

Classes = Sequence[str]


def _draw(paths: Iterator[Path]) -> None:
    for seed, path in enumerate(paths):
        draw_image(path, seed)


def unpack_office31(folder: Path, classes: Classes) -> None:
    """domain_adaptation_images.tar.gz in data/office31."""
    _draw(
        folder / domain / "images" / name / f"frame_{i:04}.jpg"
        for domain in ("amazon", "dslr", "webcam")
        for name in classes
        for i in range(1, PER_CLASS + 1)
    )


def unpack_officehome(folder: Path, classes: Classes) -> None:
    """OfficeHomeDataset_10072016.zip, which has a folder on top, in data/officehome."""
    top = folder / "OfficeHomeDataset_10072016"
    _draw(
        top / domain / name / f"{i:05}.jpg"
        for domain in ("Art", "Clipart", "Product", "Real World")
        for name in classes
        for i in range(1, PER_CLASS + 1)
    )
    (top / "ImageInfo.csv").write_text("Art,Alarm_Clock,1,00001.jpg\n")
    (top / "imagelist.txt").write_text("Art/Alarm_Clock/00001.jpg\n")


def unpack_visda(folder: Path, classes: Classes) -> None:
    """train.tar and validation.tar in data/visda; each brings its image_list.txt."""
    names = {"train": "src_1_02691156_{}__{}_236_150.png", "validation": "{}_{}.jpg"}
    for part, pattern in names.items():
        listed = [
            (f"{name}/{pattern.format(name, i)}", label) for label, name in enumerate(classes) for i in range(PER_CLASS)
        ]
        _draw(folder / part / path for path, _ in listed)
        _write_list(folder / part / "image_list.txt", listed)


def unpack_domainnet(folder: Path, classes: Classes) -> None:
    """clipart.zip and sketch.zip in data/domainnet, beside them the published lists.

    The lists number the classes in an order of their own. Of each class one image is in the test list, the others in
    the train list, but for one image of clipart that is in neither.
    """
    order = sorted(classes, key=lambda name: name.lower().replace("-", ""))
    for domain in ("clipart", "sketch"):
        paths = [
            (f"{domain}/{name}/{domain}_{label + 1:03}_{label * PER_CLASS + i + 1:06}.jpg", label)
            for label, name in enumerate(order)
            for i in range(PER_CLASS)
        ]
        _draw(folder / path for path, _ in paths)
        tested = paths[::PER_CLASS]
        trained = [pair for pair in paths if pair not in tested]
        _write_list(folder / f"{domain}_test.txt", tested)
        _write_list(folder / f"{domain}_train.txt", trained)
    draw_image(folder / "clipart" / order[0] / "clipart_001_999999.jpg", seed=-1 % 2**32)


def _write_list(path: Path, listed: Sequence[tuple[str, int]]) -> None:
    path.write_text("".join(f"{name} {label}\n" for name, label in listed))


UNPACK: dict[str, Callable[[Path, Classes], None]] = {
    "office31": unpack_office31,
    "officehome": unpack_officehome,
    "visda": unpack_visda,
    "domainnet": unpack_domainnet,
}
