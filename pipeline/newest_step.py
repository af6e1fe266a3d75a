"""Which step of a stream is meant."""

from collections.abc import Mapping

from pipeline.errors import ParamsError, did_you_mean, listed
from pipeline.params import SUITE_FILE
from pipeline.suite import State, Suite


def stream_states(suite: Suite, stream: str) -> Mapping[str, State]:
    """Return the steps of a stream, those whose images are gone first."""
    states: dict[str, State] = {**suite.past, **suite.steps}
    return {key: state for key, state in states.items() if key.partition("-")[0] == stream}


def newest_step(suite: Suite, stream: str, after: str | None = None) -> str:
    """Return the key of a stream's last step, or of the one that ``after`` names (``week2`` or ``camera-week2``)."""
    own = stream_states(suite, stream)
    if not own:
        streams = sorted({key.partition("-")[0] for key in (*suite.past, *suite.steps)})
        raise ParamsError(f"{SUITE_FILE}: steps: there is no stream {stream!r}{did_you_mean(stream, streams)}")
    if after is not None:
        key = after if "-" in after else f"{stream}-{after}"
        if key not in own:
            raise ParamsError(f"{SUITE_FILE}: steps: there is no {key!r}{did_you_mean(key, own)}")
        return key
    continued = {state.step_before for state in own.values()}
    last = [key for key in own if key not in continued]
    if len(last) > 1:
        raise ParamsError(f"{SUITE_FILE}: the stream {stream} is forked; name one of {listed(last)} (--after)")
    return last[0]
