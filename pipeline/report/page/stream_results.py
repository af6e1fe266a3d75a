"""What the steps of a stream wrote, read for the page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from pydantic import BaseModel, FiniteFloat

from pipeline.encoders.image_decoding import decode
from pipeline.errors import RefereeError
from pipeline.problem.step_results import COLUMNS
from pipeline.report.page.chart import Origin
from pipeline.report.page.pictures import THUMBNAIL, add_picture, image_file
from pipeline.report.result_file import read_json, read_table

SHOWN = 12  # least certain images


class StepFigures(BaseModel):
    """The figures of a step that the page shows, as `step_figures` returns them."""

    step: str
    steps_before: list[str]
    images: int
    corrected: int
    shares: dict[str, FiniteFloat]
    mean_confidence: FiniteFloat
    agreement: FiniteFloat
    estimated_accuracy: FiniteFloat


@dataclass(frozen=True)
class StepFiles:
    """Where the results of a step are; ``images`` as suite.yaml names them, None if they are gone."""

    figures: Path
    table: Path
    images: str | None


@dataclass(frozen=True)
class StreamResults:
    """A sequence of steps, the first one first; a fork gives several."""

    steps: Sequence[StepFigures]
    least_certain: Sequence[
        Mapping[str, object]
    ]  # rows of the last step's table, ``picture`` added
    note: str  # what the rows are, and why there is no picture of them
    origin: Origin  # of the last step

    @property
    def name(self) -> str:
        """The key of the last step."""
        return self.steps[-1].step

    @property
    def title(self) -> str:
        """The stream's name on the page, and its last step."""
        stream, _, step = self.name.partition("-")
        return f"{stream}, up to {step}"


def read_streams(
    steps: Mapping[str, StepFiles], album: dict[str, str], *, max_pixels: int
) -> list[StreamResults]:
    """Read the steps, and pictures of the least certain images; one sequence for each step that none continues.

    Parameters
    ----------
    steps : mapping of str to StepFiles
        By the keys of the steps.
    album : dict of str to str
        The page's pictures, key -> data address; new ones are added.
    max_pixels : int
        Larger images are not decoded.
    """
    figures = {
        key: read_json(files.figures, StepFigures, f"step@{key}") for key, files in steps.items()
    }
    continued = {before for step in figures.values() for before in step.steps_before}
    return [
        _read_stream(
            [figures[key] for key in (*last.steps_before, last.step) if key in figures],
            steps[last.step],
            album,
            max_pixels,
        )
        for last in figures.values()
        if last.step not in continued
    ]


def _read_stream(
    steps: Sequence[StepFigures], files: StepFiles, album: dict[str, str], max_pixels: int
) -> StreamResults:
    name = steps[-1].step
    table = read_table(files.table, COLUMNS, f"step@{name}")
    rows = table[table["corrected"] == ""][:SHOWN].to_dict("records")
    for row in rows:
        row["picture"] = _picture(files.images, row["path"], album, max_pixels)
    note = f"Of {name}, the least certain first; write what is wrong into the step's corrections."
    if rows and not any(row["picture"] for row in rows):
        gone = files.images is None
        note += " No pictures: the images are " + ("gone." if gone else "private, or not here.")
    return StreamResults(steps, rows, note, Origin(f"step@{name}", files.table.as_posix()))


def _picture(images: str | None, path: str, album: dict[str, str], max_pixels: int) -> str | None:
    """Return the album's key of an image; None where it is private (then it has no path), absent or damaged."""
    if images is None:
        return None
    try:
        image = decode(image_file(images, path), max_pixels=max_pixels)
    except RefereeError:
        return None
    return add_picture(album, np.asarray(image), THUMBNAIL)
