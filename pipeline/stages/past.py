"""Stage `past@STREAM-STEP`: the state after a step whose images are gone. DVC keeps it and never runs this.

`referee stream forget` moves a step from `steps` to `past` in suite.yaml: then no path of the graph leads from later
steps to its images, and `dvc push` and `dvc pull` carry the state like any output.
"""

from pipeline import paths
from pipeline.errors import StoreError
from pipeline.stage import Context, stage


@stage(per=("past",), reads=("past",), version=1)
def past(context: Context, name: str) -> str:
    """Say that the state cannot be made again."""
    del context
    path = paths.stream_state(name)
    raise StoreError(f"{path}: its images are gone, so it cannot be made again; fetch it with `dvc pull {path}`")
