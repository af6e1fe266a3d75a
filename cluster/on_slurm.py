"""Run a command on a Dask cluster of Slurm jobs, one worker per job, one GPU per worker (dask-jobqueue).

    python cluster/on_slurm.py --jobs 4 --partition gpu --cores 8 --memory 32GB --gpus 1 -- dvc repro
    python cluster/on_slurm.py --jobs 4 --partition gpu --print-job     # prints the job script, submits nothing

Start it in the project's folder, which the jobs must see under the same path, on a node whose network they reach. The
command starts at once and waits for the first job; later ones join when Slurm starts them. Jobs that end early (time
limit, preempted node) are submitted again, and their unfinished work is done by others.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from typing import Any

from dask.utils import parse_timedelta
from dask_jobqueue import SLURMCluster


def options(args: argparse.Namespace) -> dict[str, Any]:
    """Return the arguments of `SLURMCluster`."""
    gpu = [f"--gres=gpu:{args.gpus}"] if args.gpus else []
    return {
        "queue": args.partition,
        "account": args.account,
        "cores": 1 if args.gpus else args.cores,  # number of tasks at once; a GPU processes one block at a time
        "processes": 1,
        "job_cpu": args.cores,  # a GPU's worker decodes images on all cores of its job
        "memory": args.memory,
        "walltime": args.walltime,
        "interface": args.interface,
        "python": sys.executable,  # this environment, on a shared file system
        "job_extra_directives": [*gpu, *args.directive],
        "job_script_prologue": [f"cd {os.getcwd()}"],  # noqa: PTH109
        "worker_extra_args": ["--lifetime", args.lifetime] if args.lifetime else [],
        "log_directory": ".referee/cluster",
        "scheduler_options": {"dashboard_address": ":0"},  # any free port
    }


def parse(argv: list[str] | None = None) -> argparse.Namespace:
    """Parse the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jobs", type=int, required=True, help="number of jobs, one worker each")
    parser.add_argument("--partition")
    parser.add_argument("--account")
    parser.add_argument("--cores", type=int, default=8, help="cores per job")
    parser.add_argument("--memory", default="32GB", help="memory per job")
    parser.add_argument("--gpus", type=int, default=1, choices=(0, 1), help="GPUs per job")
    parser.add_argument("--walltime", default="12:00:00")
    parser.add_argument("--lifetime", help="end workers before the walltime, e.g. after 710m")
    parser.add_argument("--interface", help="network interface of the jobs, e.g. ib0")
    parser.add_argument("--directive", action="append", default=[], help="additional #SBATCH line")
    parser.add_argument("--print-job", action="store_true", help="print the job script and exit")
    parser.add_argument("command", nargs="*", metavar="COMMAND", help="command to run, after --")
    args = parser.parse_args(argv)
    try:
        parse_timedelta(args.lifetime or "1h")
    except (ValueError, KeyError):
        parser.error(f"--lifetime {args.lifetime}: one number and a unit, e.g. 710m or 12h")
    if not (args.command or args.print_job):
        parser.error("no command; add one after --, e.g. -- dvc repro")
    return args


def main(argv: list[str] | None = None) -> int:
    """Submit the jobs, run the command, cancel the jobs."""
    args = parse(argv)
    with SLURMCluster(**options(args)) as cluster:
        if args.print_job:
            sys.stdout.write(cluster.job_script())
            return 0
        cluster.adapt(minimum_jobs=args.jobs, maximum_jobs=args.jobs)
        environment = {**os.environ, "DASK_SCHEDULER_ADDRESS": cluster.scheduler_address}
        return subprocess.run(args.command, env=environment, check=False).returncode  # noqa: S603


if __name__ == "__main__":
    sys.exit(main())
