"""Collect what all sources of images return: paths, and classes and tasks if known."""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import NamedTuple, TypeVar

from pipeline.array_files import is_domain
from pipeline.errors import InputError, did_you_mean, listed
from pipeline.image_files.read import IMAGE_SUFFIXES

Name = TypeVar("Name", Path, str)


class LabelledImage(NamedTuple):
    """An image with the class and task stated by its source."""

    path: Path  # for `pipeline.image_files.read`
    class_name: str  # "" if unknown
    task: int | None = None  # from 1


class FoundImages(NamedTuple):
    """The images of a domain, sorted by path, and what was left out."""

    images: list[LabelledImage]
    ignored: dict[str, int]  # number of files that are not images, by suffix: {".txt": 3}
    classes: tuple[str, ...] = ()  # the classes listed by the source, including classes without images
    has_bytes: bool = True  # False if only paths are known

    def class_names(self) -> list[str]:
        """Return the sorted classes listed by the source, or those of its images; capitals come first."""
        return sorted(set(self.classes) or {image.class_name for image in self.images})

    def tasks(self) -> list[list[str]] | None:
        """Return the classes of each task, or None if the source has no tasks."""
        task_of: dict[str, int] = {}
        for path, class_name, task in self.images:
            if task is not None and task_of.setdefault(class_name, task) != task:
                raise InputError(
                    f"{path}: is in task {task}, another image of its class {class_name!r} in task "
                    f"{task_of[class_name]}; a class must be in one task"
                )
        numbers = sorted(set(task_of.values()))
        return [[c for c in task_of if task_of[c] == n] for n in numbers] or None


@dataclass(frozen=True)
class DomainSettings:
    """The settings in suite.yaml of the domain whose images are collected."""

    domain: str = ""  # its key; if empty, images of all domains are collected
    dataset: str = ""  # the key of its dataset
    class_names: tuple[str, ...] = ()  # the allowed classes, in the order of label numbers; any class if empty
    labelled: bool = True  # whether labels are read
    # column names for ``image``, ``label``, ``domain`` and ``task``, if they differ
    columns: Mapping[str, str] = field(default_factory=dict)

    def column(self, role: str) -> str:
        """Return the name of a role's column, by default the role itself."""
        return self.columns.get(role, role)

    def matches(self, domain: object) -> bool:
        """Return whether a value in a domain column names this domain, by its key with or without the dataset's."""
        names = (str(domain), f"{self.dataset}_{domain}")
        return not self.domain or any(is_domain(name, self.domain) for name in names)

    def require_known(self, where: str, class_name: str) -> None:
        """Raise InputError if the dataset does not have this class."""
        if self.class_names and class_name not in self.class_names:
            raise InputError(
                f"{where}: {class_name!r} is not a class of this dataset (datasets.*.class_names)"
                f"{did_you_mean(class_name, self.class_names)}"
            )

    def class_of(self, label: object, where: str, names: Sequence[str] = ()) -> str:
        """Return the class of a label, which is a name (ignoring spaces and capitals) or a number.

        ``where`` names file and row in messages. Numbers refer to ``names`` of the source, if given, otherwise to the
        dataset's ``class_names``.
        """
        text = label.decode("utf-8", "replace") if isinstance(label, bytes) else str(label)
        text = "" if label is None else text.strip()
        if not text:
            raise InputError(f"{where}: has no label; add it, or set labels: none for the domain")
        known = names or self.class_names
        is_number = re.fullmatch(r"-?\d{1,9}", text) and (names or text not in self.class_names)
        if is_number and not known and not isinstance(label, str):  # a class may be called "7"
            raise InputError(
                f"{where}: label {int(text)} has no name; name the classes in datasets.*.class_names, "
                "in the order of the label numbers"
            )
        if is_number and known:
            if not 0 <= int(text) < len(known):
                raise InputError(
                    f"{where}: label {int(text)} is out of range; there are {len(known)} classes, 0 to {len(known) - 1}"
                )
            text = known[int(text)]
        matches = [name for name in self.class_names if _folded(name) == _folded(text)]
        text = matches[0] if len(matches) == 1 else text
        self.require_known(where, text)
        return require_utf8(text, where)


def _folded(name: str) -> str:
    return re.sub(r"[\W_]+", "", name).casefold()


class ImageCollector:
    """Collect the images of one domain into `FoundImages`: each once, with one class, sorted."""

    def __init__(self, settings: DomainSettings) -> None:
        self.settings = settings
        self.ignored: Counter[str] = Counter()
        self._images: dict[Path, LabelledImage] = {}
        self._other_domains: Counter[str] = Counter()

    def is_other_domain(self, domain: object) -> bool:
        """Return whether an image, given its source's domain value or None, is of another domain; count these."""
        if domain is None or self.settings.matches(domain):
            return False
        self._other_domains[str(domain)] += 1
        return True

    def add(self, path: Path, class_name: str, task: object = None, *, where: str = "") -> None:
        """Add an image; if it was added before, it must be of the same class."""
        if task is not None and not re.fullmatch(r"[1-9]\d{0,8}", str(task).strip()):
            raise InputError(f"{where or path}: task {str(task).strip()!r} is not a whole number from 1")
        image = LabelledImage(require_utf8(path), class_name, None if task is None else int(str(task)))
        previous = self._images.setdefault(path, image)
        if previous.class_name != class_name:
            prefix = f"{where}: " if where else ""
            raise InputError(f"{prefix}{path}: listed in two classes, {previous.class_name} and {class_name}")

    def result(self, source: Path, classes: Sequence[str] = (), *, has_bytes: bool = True) -> FoundImages:
        """Return the images found; raise InputError if ``source`` only has images of other domains."""
        if not self._images and self._other_domains:
            domains = listed(" ".join(name.split()) for name in sorted(self._other_domains))
            raise InputError(
                f"{source}: none of its images is of domain {self.settings.domain} (there are: {domains}); the "
                "domain's key in suite.yaml must be one of these, or name the column in datasets.*.columns.domain "
                "('' for none)"
            )
        images = sorted(self._images.values(), key=lambda image: image.path.as_posix())
        return FoundImages(images, dict(sorted(self.ignored.items())), tuple(classes), has_bytes)


def require_utf8(name: Name, where: str = "") -> Name:
    """Return a path or class name, or raise InputError if it is not UTF-8 and could not be written to a CSV file."""
    try:
        str(name).encode("utf-8")
    except UnicodeEncodeError:
        text = str(name).encode("utf-8", "backslashreplace").decode()
        raise InputError(f"{where}: {text}".removeprefix(": ") + ": this name is not UTF-8; rename it") from None
    return name


def image_below(root: Path, text: str, where: str) -> Path:
    """Return the path of an image named in a list or table, which must exist below ``root``."""
    path = PurePosixPath(text)
    if path.is_absolute() or ".." in path.parts:
        raise InputError(f"{where}: leaves the folder of the list")
    if path.suffix.lower() not in IMAGE_SUFFIXES:
        raise InputError(f"{where}: not an image ({listed(sorted(IMAGE_SUFFIXES))})")
    if not (root / path).is_file():
        raise InputError(f"{where}: no such file in {root}")
    return root / path
