"""Stage `step@STREAM-STEP`: add one step of unlabelled images to a stream.

Reads the state of the step before (statistics, no rows), the embeddings of this step's images, prompts, basis and the
source *model*, but no image or row of an earlier step and no label. Writes cache/streams/STEP.zarr, the state that the
next step continues. For people it writes results/SUITE/streams/STEP.csv (the predicted class of each image, least
certain first) and STEP.json (shares of the classes, agreement, estimated accuracy, drift).
"""

from dataclasses import replace
from functools import partial
from typing import Any

from pipeline import paths
from pipeline.errors import counted
from pipeline.problem.method_options import method_options
from pipeline.problem.opened_step import OpenedStep
from pipeline.problem.step_adaptation import adapt_step
from pipeline.problem.step_tables import ESTIMATE_ERROR, UNKNOWN_CLASS, images_csv, step_figures
from pipeline.stage import Context, stage
from pipeline.store.stream_state import write_stream_state
from pipeline.write_aside import write_json, write_text


@stage(per=("steps",), reads=("language", "method", "steps", "vision"))
def step(context: Context, name: str) -> str:
    """Write cache/streams/STEP.zarr and results/SUITE/streams/STEP.csv and STEP.json."""
    params = context.params
    entry = params.steps[name]
    options = method_options(params.method.variant, params.method.options)
    with context.executor(entry.domain) as executor:
        domain = context.project.domain(entry.domain, lazy=executor.lazy)
        inputs = OpenedStep(name, entry, domain, options)
        (result,) = executor.for_each_seed(
            partial(adapt_step, step=inputs),
            1,
            images=len(inputs.images),
            views=len(options.views),
            D=inputs.basis.width,
        )
    names = inputs.class_names
    previous = None if inputs.previous_state is None else inputs.previous_state.summary
    figures = step_figures(result.prediction, names, previous, corrected=len(inputs.corrected))
    table = images_csv(inputs.images, result.prediction, names, result.weight, inputs.corrected)
    state = replace(result.state, summary=figures)
    write_text(paths.step_images(context.suite, name), table)
    content = {"step": name, "steps_before": list(state.steps_before), **figures}
    write_json(paths.step_figures(context.suite, name), content)
    write_stream_state(paths.stream_state(name), state)
    return summary(figures, len(state.classes), entry.step_before)


def summary(figures: dict[str, Any], classes: int, before: str | None) -> str:
    """Return one line about the step: its images and classes, how sure the model is, and what changed."""
    line = (
        f"{counted(figures['images'], 'image')}, {counted(classes, 'class')} so far, "
        f"branches agree on {figures['agreement']:.0%}, accuracy perhaps {figures['estimated_accuracy']:.0%} "
        f"(without labels: {ESTIMATE_ERROR} points off on average)"
    )
    if UNKNOWN_CLASS in figures["shares"]:
        line += f"; {figures['shares'][UNKNOWN_CLASS]:.0%} unknown"
    if figures["drift"]:
        line += f"; shares moved by {figures['drift']['shares']:.0%} since {before}"
    return line
