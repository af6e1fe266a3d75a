"""Run stages in processes that can be killed: a server imports all of them once and forks a child for every run.

This way a kill at a random moment hits a working stage and not the two seconds of imports before it.
"""

import multiprocessing
import os
import signal
import sys
import time
from pathlib import Path

from pipeline.stage import main, stage_names

HEAVY = (
    "extraction.embed",
    "extraction.refine",
    "encoders.clip_encoder",
    "encoders.timm_encoder",
    "report.view_picture",
)
STAGES = (f"stages.{name}" for name in stage_names())
SERVER = multiprocessing.get_context("forkserver")
SERVER.set_forkserver_preload(["__main__", *(f"pipeline.{name}" for name in (*STAGES, *HEAVY))])


def run_stage(folder: Path, *arguments: str) -> None:
    """Run a stage without output."""
    os.chdir(folder)
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, 1)
    os.dup2(null, 2)
    sys.exit(main(arguments))


def start(folder: Path, arguments: tuple[str, ...]) -> multiprocessing.process.BaseProcess:
    """Start a stage."""
    process = SERVER.Process(target=run_stage, args=(folder, *arguments))
    process.start()
    return process


def run_to_completion(folder: Path, *arguments: str) -> float:
    """Run a stage and return its duration in seconds."""
    began = time.perf_counter()
    process = start(folder, arguments)
    process.join()
    assert process.exitcode == 0, f"{arguments}: status {process.exitcode}"
    return time.perf_counter() - began


def kill_after(seconds: float, folder: Path, *arguments: str) -> bool:
    """Start a stage, SIGKILL it after ``seconds``, and return whether it was still running."""
    process = start(folder, arguments)
    time.sleep(seconds)
    process.kill()
    process.join()
    return process.exitcode == -signal.SIGKILL
