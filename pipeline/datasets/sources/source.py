"""What is found in every source of images: paths, and classes and tasks where they are known."""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import NamedTuple

from pipeline.array_files import is_domain
from pipeline.errors import InputError, did_you_mean, listed
from pipeline.image_files.read import IMAGE_SUFFIXES


class LabelledImage(NamedTuple):
    """An image and what its source says of it."""

    path: Path  # where its bytes are: `pipeline.image_files.read`
    class_name: str  # "" where nobody knows it
    task: int | None = None  # from 1


class FoundImages(NamedTuple):
    """The images of a domain, sorted by path, and what was left out."""

    images: list[LabelledImage]
    ignored: dict[str, int]  # numbers of files, by suffix, that are no images: {".txt": 3}
    classes: tuple[str, ...] = ()  # the classes that the source names, those without images too
    has_bytes: bool = True  # False: only paths are known

    def class_names(self) -> list[str]:
        """Return the classes that the source names, else those of its images; sorted: capitals come first."""
        return sorted(set(self.classes) or {image.class_name for image in self.images})

    def tasks(self) -> list[list[str]] | None:
        """Return the classes of each task where the source says them; None where it does not."""
        task_of: dict[str, int] = {}
        for path, class_name, task in self.images:
            if task is not None and task_of.setdefault(class_name, task) != task:
                raise InputError(
                    f"{path}: is of task {task}, another image of its class {class_name!r} of task "
                    f"{task_of[class_name]}; a class arrives in one task"
                )
        numbers = sorted(set(task_of.values()))
        return [[c for c in task_of if task_of[c] == n] for n in numbers] or None


@dataclass(frozen=True)
class DomainSettings:
    """What suite.yaml says of the domain whose images are sought."""

    domain: str = ""  # its key; images of all domains if empty
    dataset: str = ""  # the key of its dataset
    class_names: tuple[str, ...] = ()  # the only classes, in the order of label numbers; any class if empty
    labelled: bool = True  # whether labels are read
    # names of the columns ``image``, ``label``, ``domain`` and ``task``, where they are others
    columns: Mapping[str, str] = field(default_factory=dict)

    def column(self, role: str) -> str:
        """Return the name of a column: the one given, else the role's own."""
        return self.columns.get(role, role)

    def has(self, domain: object) -> bool:
        """Tell whether a value of a domain column is this domain: its key, or its key without the dataset's."""
        names = (str(domain), f"{self.dataset}_{domain}")
        return not self.domain or any(is_domain(name, self.domain) for name in names)

    def require_known(self, where: str, class_name: str) -> None:
        """Refuse a class that the dataset does not have."""
        if self.class_names and class_name not in self.class_names:
            raise InputError(
                f"{where}: {class_name!r} is not a class of this dataset (datasets.*.class_names)"
                f"{did_you_mean(class_name, self.class_names)}"
            )

    def class_of(self, label: object, where: str, names: Sequence[str] = ()) -> str:
        """Return the class that a label names: by its name, however spaces and capitals are written, or by its number.

        ``where`` is file and row, for messages; ``names`` are the source's own by number, else the dataset's count.
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
        same = [name for name in self.class_names if _folded(name) == _folded(text)]
        text = same[0] if len(same) == 1 else text
        self.require_known(where, text)
        return text


def _folded(name: str) -> str:
    return re.sub(r"[\W_]+", "", name).casefold()


class Collected:
    """Images on their way into `FoundImages`: of this domain, each once, of one class, sorted."""

    def __init__(self, settings: DomainSettings) -> None:
        self.settings = settings
        self.ignored: Counter[str] = Counter()
        self._images: dict[Path, LabelledImage] = {}
        self._other_domains: Counter[str] = Counter()

    def is_other_domain(self, domain: object) -> bool:
        """Tell whether what a source says of an image's domain, if anything, is another domain; count it."""
        if domain is None or self.settings.has(domain):
            return False
        self._other_domains[str(domain)] += 1
        return True

    def add(self, path: Path, class_name: str, task: object = None, *, where: str = "") -> None:
        """Add an image; one that was added before must be of the same class."""
        if task is not None and not re.fullmatch(r"[1-9]\d{0,8}", str(task).strip()):
            raise InputError(f"{where or path}: task {str(task).strip()!r} is not a whole number from 1")
        image = LabelledImage(require_text(path), class_name, None if task is None else int(str(task)))
        before = self._images.setdefault(path, image)
        if before.class_name != class_name:
            listed_at = f"{where}: " if where else ""
            raise InputError(f"{listed_at}{path}: listed in two classes, {before.class_name} and {class_name}")

    def found(self, source: Path, classes: Sequence[str] = (), *, has_bytes: bool = True) -> FoundImages:
        """Return what was found; a source that has other domains only is refused by its name."""
        if not self._images and self._other_domains:
            others = listed(" ".join(name.split()) for name in sorted(self._other_domains))
            raise InputError(
                f"{source}: none of its images is of domain {self.settings.domain} (there are: {others}); the "
                "domain's key in suite.yaml must be one of these, or name the column in datasets.*.columns.domain "
                "('' for none)"
            )
        images = sorted(self._images.values(), key=lambda image: image.path.as_posix())
        return FoundImages(images, dict(sorted(self.ignored.items())), tuple(classes), has_bytes)


def require_text(path: Path) -> Path:
    """Return ``path``, or refuse it where its name is not UTF-8: no CSV file could hold it."""
    try:
        str(path).encode("utf-8")
    except UnicodeEncodeError:
        shown = str(path).encode("utf-8", "backslashreplace").decode()
        raise InputError(f"{shown}: this name is not UTF-8; rename the file or folder") from None
    return path


def image_below(root: Path, text: str, where: str) -> Path:
    """Return the file that a list or table names, which must be an image below its folder."""
    path = PurePosixPath(text)
    if path.is_absolute() or ".." in path.parts:
        raise InputError(f"{where}: leaves the folder that the list is about")
    if path.suffix.lower() not in IMAGE_SUFFIXES:
        raise InputError(f"{where}: not an image ({listed(sorted(IMAGE_SUFFIXES))})")
    if not (root / path).is_file():
        raise InputError(f"{where}: no such file in {root}")
    return root / path
