"""Read what the steps of a stream wrote, and compute its charts; templates/charts says how they are drawn."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from pandas import DataFrame

from pipeline import paths
from pipeline.problem.step_tables import COLUMNS, ESTIMATE_ERROR
from pipeline.report.page.chart import Chart, Origin, draw
from pipeline.report.page.pictures import THUMBNAIL, add_picture, image_of_row
from pipeline.report.results import StepFigures, read_result_table, read_step

UNCERTAIN_IMAGES = 12  # number of least certain images shown
MOST_CLASSES = 30  # maximum number of classes in the chart of shares
FIGURES = {
    "estimated_accuracy": "estimated accuracy",
    "mean_confidence": "mean confidence",
    "agreement": "branches agree",
}


@dataclass(frozen=True)
class StreamResults:
    """A sequence of steps in order; a stream that forks has several."""

    suite: str
    steps: Sequence[StepFigures]
    least_certain: Sequence[Mapping[str, object]]  # rows of the last step's table, with ``picture`` added
    note: str  # what the rows are, and why they have no pictures

    @property
    def name(self) -> str:
        """The key of the last step."""
        return self.steps[-1].step

    def step_names(self) -> list[str]:
        """Return the names of the steps, with the stream's name if steps of several streams have the same name."""
        keys = [step.step for step in self.steps]
        short = [key.partition("-")[2] for key in keys]
        return short if len(set(short)) == len(short) else keys

    def origin(self, ending: str) -> Origin:
        """Return the stage and file of the last step's figures (``json``) or images (``csv``)."""
        return Origin(f"step@{self.name}", paths.step_images(self.suite, self.name).with_suffix(f".{ending}"))


def read_streams(
    suite: str, images: Mapping[str, str | None], album: dict[str, str], *, max_pixels: int
) -> list[StreamResults]:
    """Read the sequences of steps, one for each step that no other continues, with pictures of uncertain images.

    ``images`` maps each step to its ``images`` in suite.yaml, None if they are gone. Pictures are added to the album.
    """
    steps = {key: read_step(suite, key) for key in images}
    continued = {before for step in steps.values() for before in step.steps_before}
    streams = []
    for key, last in steps.items():
        if key in continued:
            continue
        table = read_result_table(paths.step_images(suite, key), COLUMNS, f"step@{key}")
        rows, folder = table[table["corrected"] == ""][:UNCERTAIN_IMAGES].to_dict("records"), images[key]
        for row in rows:
            image = folder and image_of_row(folder, row["path"], max_pixels)  # images of a private domain have no path
            row["picture"] = add_picture(album, np.asarray(image), THUMBNAIL) if image else None
        note = f"Images of {key}, least certain first. Write the true class of wrong ones into the step's corrections."
        if rows and not any(row["picture"] for row in rows):
            reason = "gone." if folder is None else "private or not on this machine."
            note += f" No pictures: the images are {reason}"
        before = [steps[name] for name in last.steps_before if name in steps]
        streams.append(StreamResults(suite, [*before, last], rows, note))
    return streams


def stream_charts(results: StreamResults) -> list[Chart]:
    """Return the charts of a stream, in the page's order."""
    return [confidence_over_time(results), class_shares(results)]


def confidence_over_time(results: StreamResults) -> Chart:
    """Draw the label-free figures of each step."""
    table = DataFrame([step.model_dump(include={*FIGURES}) for step in results.steps])
    table = (100 * table[[*FIGURES]]).round(1).rename(columns=FIGURES)
    table.insert(0, "step", results.step_names())
    figures = list(FIGURES.values())
    return draw("stream", table, results.origin("json"), key="confidence", figures=figures, off=ESTIMATE_ERROR)


def class_shares(results: StreamResults) -> Chart:
    """Draw the share of each class among the predictions of each step."""
    names = results.step_names()
    shares = 100 * DataFrame([step.shares for step in results.steps], index=names).T.sort_index()
    largest = shares.max(axis=1).sort_values(ascending=False, kind="stable")
    classes = sorted(largest.index[:MOST_CLASSES])
    table = shares.round(1).rename_axis("class")
    values = table.loc[classes].reset_index().melt("class", names, "step", "share").dropna()
    return draw(
        "shares",
        values,
        results.origin("json"),
        rows=table.astype(object).where(table.notna(), "").reset_index(),
        steps=names,
        classes=classes,
        top=float(largest.iloc[0]),
        most=shares[names[-1]].idxmax(),
        left_out=len(shares) - len(classes),
    )
