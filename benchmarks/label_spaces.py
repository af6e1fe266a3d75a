"""Evaluate closed, partial, open and universal label spaces, with the classes of a task given and hidden.

Run ``python -m benchmarks.label_spaces [PROBLEM ...]`` in a project whose suite's features are cached (`dvc repro embed
prompts`). It runs the stages in the folder label_spaces/ for all or the named problems, in every label space of their
dataset, on all seeds. It prints a Markdown table of means over problems and seeds, in percent: accuracy on shared
classes (A_T in closed and partial label spaces, otherwise the mean per class, where a rejected image is wrong),
accuracy on unknown images, H-score and AUROC. Below it is the share of test images that `rejecting` rejects in closed
problems, where every image is known.
"""

import json
import os
import shutil
import sys
from collections import defaultdict
from contextlib import redirect_stdout
from pathlib import Path

import numpy as np
from ruamel.yaml import YAML

from pipeline import paths
from pipeline.comparison.referee_variants import rejecting_answers
from pipeline.comparison.unknown_classes import BASELINES
from pipeline.config.params import load_params
from pipeline.method.variants import VARIANTS
from pipeline.stage import main as run_stage
from pipeline.stage import open_project
from pipeline.store.basis_file import read_bases

FOLDER = Path("label_spaces")
CLOSED = ["clip_zero_shot", "source_only", "nearest_mean", "calibrated"]
UNKNOWN = {"open", "universal"}  # label spaces with classes that the source lacks
COLUMNS = ("shared", "unknown", "h_score", "auroc")


def write_project(only):
    """Write the project; return the label space of each problem and whether classes are hidden."""
    yaml = YAML()
    suite, params = (yaml.load(Path(name)) for name in ("suite.yaml", "params.yaml"))
    shutil.rmtree(FOLDER, ignore_errors=True)
    shutil.copytree("cache/manifests", FOLDER / "cache/manifests")
    for part in ("embeddings", "prompts"):
        (FOLDER / "cache" / part).symlink_to(Path("cache", part).absolute())
    cases, problems = {}, {}
    for name, pair in suite["problems"].items():
        spaces = suite["datasets"][suite["domains"][pair["target"]]["dataset"]]["label_spaces"]
        for space in (None, *spaces) if name in only or not only else ():
            for hidden in (False, True):
                key = f"{name}-{space or 'closed'}{'-hidden' if hidden else ''}"
                cases[key] = (space or "closed", hidden)
                problems[key] = dict(pair) | ({"classes": "seen"} if hidden else {})
                problems[key] |= {"label_space": space} if space else {}
    yaml.dump(suite | {"problems": problems, "swept": {}}, FOLDER / "suite.yaml")
    params["compare"]["methods"] = [*CLOSED, "rejecting", *BASELINES]
    yaml.dump(params, FOLDER / "params.yaml")
    return cases


def stages(cases):
    """Yield the stages to run in the folder, in order."""
    os.chdir(FOLDER)
    suite = YAML(typ="safe").load(Path("suite.yaml"))
    for domain in suite["domains"]:
        yield from ((stage, domain) for stage in ("order", "tasks"))
    for source in sorted({problem["source"] for problem in suite["problems"].values()}):
        yield ("source", source)
    for name, (space, hidden) in cases.items():
        if hidden:  # with given classes, `compare` computes all figures
            variant = "rejecting" if space in UNKNOWN else "calibrated"
            params = YAML().load(Path("params.yaml"))
            params["method"]["variant"] = variant
            YAML().dump(params, Path("params.yaml"))
            yield from ((stage, name) for stage in ("adapt", "evaluate"))
        else:
            yield "compare", name


def figures(cases):
    """Return the measures of every problem, averaged over seeds, by (label space, method)."""
    measures = defaultdict(list)
    results = Path("results") / YAML(typ="safe").load(Path("suite.yaml"))["suite"]
    for name, (space, hidden) in cases.items():
        if hidden:
            result = json.loads((results / f"evaluations/{name}.json").read_text())
            values = result["label_space"] if space in UNKNOWN else {"shared": result["A_T"]}
            measures[space, "ours, classes hidden"].append([values.get(c) for c in COLUMNS])
            continue
        methods = json.loads((results / f"problems/{name}/comparison.json").read_text())["methods"]
        for entry in methods.values():
            values = entry.get("label_space") or {"shared": entry["A_T"]}
            if "label_space" in entry or space not in UNKNOWN:
                measures[space, entry["title"]].append([values.get(c) for c in COLUMNS])
    return measures


def known_rejected(cases):
    """Return the share of test images, in percent, that `rejecting` rejects in closed problems."""
    params = load_params()
    project, shares = open_project(params), []
    for name in (name for name, case in cases.items() if case == ("closed", False)):
        problem, bases = project.labelled_problem(name), read_bases(paths.bases(params.problems[name].source))
        for seed_index in range(len(params.data.seeds)):
            answers = rejecting_answers(problem.seed(seed_index, bases.basis(seed_index)), VARIANTS["rejecting"])
            shares.append(100 * answers[-1].rejected.mean())
    return np.mean(shares)


def main(only):
    """Print the table for the problems in ``only``, or for the whole suite if it is empty."""
    cases = write_project(only)
    with redirect_stdout(sys.stderr):
        for stage in stages(cases):
            if run_stage(list(stage)):
                raise SystemExit(f"{' '.join(stage)} failed")
    print("| label space | method | shared | unknown | H-score | AUROC |\n|---|---|---|---|---|---|")
    for (space, method), values in figures(cases).items():
        columns = np.array(values, dtype=float).mean(axis=0)
        cells = ("–" if np.isnan(v) else f"{v:.1f}" for v in columns)
        print(f"| {space} | {method} | {' | '.join(cells)} |")
    print(f"\nrejected where all are known: {known_rejected(cases):.1f}")


if __name__ == "__main__":
    main(sys.argv[1:])
