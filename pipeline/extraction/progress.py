"""Progress of long work: a bar on a terminal, a line now and then in a log."""

import sys
import time
from typing import Self

from tqdm import tqdm

SECONDS = 30.0  # between two lines in a log
UNIT = " images"


class Progress:
    """Counts ``total`` images of the work ``what`` and shows them on stderr; a context manager.

    On a terminal it is tqdm's bar. Elsewhere (DVC's logs, a batch system) it is one line every 30
    seconds with the count, the rate and the time that remains.
    """

    def __init__(self, what: str, total: int) -> None:
        self._what, self._total = what, total
        self._done = 0
        self._began = self._shown = time.monotonic()
        # disable=None: only where stderr is a terminal
        self._bar = tqdm(total=total, unit=UNIT, disable=None, smoothing=0.05, leave=False)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._bar.close()

    def update(self, count: int) -> None:
        """Add ``count`` images to what is done."""
        self._done += count
        self._bar.update(count)
        now = time.monotonic()
        if self._bar.disable and now - self._shown >= SECONDS:
            self._shown = now
            line = tqdm.format_meter(self._done, self._total, now - self._began, ncols=0, prefix=self._what, unit=UNIT)
            sys.stderr.write(f"{line}\n")
            sys.stderr.flush()
