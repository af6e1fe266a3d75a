"""Show the progress of long work: a bar on a terminal, a line every 30 seconds in a log."""

import sys
import time
from typing import Self

from tqdm import tqdm

LINE_SECONDS = 30.0  # interval between lines in a log
UNIT = " images"


class Progress:
    """Context manager that shows on stderr how many of ``total`` images are done.

    On a terminal this is tqdm's bar. Elsewhere (DVC's logs, a batch system) it is one line every 30 seconds with the
    ``label``, the count, the rate and the remaining time.
    """

    def __init__(self, label: str, total: int) -> None:
        self._label, self._total = label, total
        self._done = 0
        self._started = self._last_line = time.monotonic()
        # disable=None: disabled unless stderr is a terminal
        self._bar = tqdm(total=total, unit=UNIT, disable=None, smoothing=0.05, leave=False)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._bar.close()

    def update(self, count: int) -> None:
        """Add ``count`` finished images."""
        self._done += count
        self._bar.update(count)
        now = time.monotonic()
        if self._bar.disable and now - self._last_line >= LINE_SECONDS:
            self._last_line = now
            elapsed = now - self._started
            line = tqdm.format_meter(self._done, self._total, elapsed, ncols=0, prefix=self._label, unit=UNIT)
            sys.stderr.write(f"{line}\n")
            sys.stderr.flush()
