"""Stage `past@STREAM-STEP`: keep the state after a step whose images are gone. DVC never needs to run this stage.

`referee stream forget` moves a step from `steps` to `past` in suite.yaml. Later steps then no longer depend on its
images, and `dvc push` and `dvc pull` transfer the state like any other output.
"""

from pipeline import paths
from pipeline.errors import StoreError
from pipeline.stage import Context, stage


@stage(per=("past",), reads=("past",), version=1)
def past(context: Context, name: str) -> str:
    """Raise StoreError, because the state cannot be made again."""
    del context
    path = paths.stream_state(name)
    raise StoreError(f"{path}: its images are gone, so it cannot be made again; fetch it with `dvc pull {path}`")
