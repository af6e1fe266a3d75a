"""Stages as processes that can be killed: one process imports them all once and forks a child for every run.

A kill at a random moment then hits a stage at work, not the two seconds of imports before it.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import TracebackType

SERVER = """
import os, sys
from pipeline.stage import find_stage, main, stage_names
for name in stage_names():
    find_stage(name)
import pipeline.extraction.embed, pipeline.extraction.refine, pipeline.encoders.clip_encoder
import pipeline.encoders.timm_encoder, pipeline.report.view_picture
print("ready", flush=True)
while line := sys.stdin.readline():
    folder, stage, *arguments = line.rstrip("\\n").split("\\t")
    child = os.fork()
    if child == 0:
        os.chdir(folder)
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, 1)
        os.dup2(null, 2)
        code = 1
        try:
            code = main([stage, *arguments])
        finally:
            os._exit(code)
    print(child, flush=True)
    sys.stdin.readline()  # not before the killer is done: an ended child keeps its number until it is waited for
    _, status = os.waitpid(child, 0)
    print(status, flush=True)
"""


class StageServer:
    """Runs stages in forked children, and kills them."""

    def __enter__(self) -> StageServer:
        self._process = subprocess.Popen(
            [sys.executable, "-c", SERVER],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"},
        )
        assert self._line() == "ready"
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.stdin.close()  # type: ignore[union-attr]
        self._process.wait(60)
        self._process.stdout.close()  # type: ignore[union-attr]

    def _line(self) -> str:
        return self._process.stdout.readline().strip()  # type: ignore[union-attr]

    def _start(self, folder: Path, stage: str, arguments: tuple[str, ...]) -> int:
        print(folder, stage, *arguments, sep="\t", file=self._process.stdin, flush=True)
        return int(self._line())

    def _status(self) -> int:
        print("reap", file=self._process.stdin, flush=True)
        return int(self._line())

    def run(self, folder: Path, stage: str, *arguments: str) -> float:
        """Run a stage to its end; return its seconds."""
        began = time.perf_counter()
        self._start(folder, stage, arguments)
        status = self._status()
        assert status == 0, f"{stage} {arguments}: status {status}"
        return time.perf_counter() - began

    def kill_after(self, seconds: float, folder: Path, stage: str, *arguments: str) -> bool:
        """Start a stage and SIGKILL it after so long; return whether it was still at work."""
        child = self._start(folder, stage, arguments)
        time.sleep(seconds)
        os.kill(child, signal.SIGKILL)
        return os.WIFSIGNALED(self._status())
