"""Stage `code`: what decides the outputs of each stage besides its inputs.

DVC sees neither imports nor defaults. For every stage this one writes cache/code/STAGE.json, or a file per key of the
stage, on which the stage depends:

- for the stages whose outputs cost hours (`manifest`, `embed`, `prompts` and what they read), the version that their
  declaration states: refactoring and comments never throw features away;
- for the others, the `pipeline.code_fingerprints` of all that they may import;
- the stage's ``settings`` for its keys, if it declares any;
- the defaults of the sections that DVC tracks by name for it, because a value that is not written in params.yaml is a
  dependency as well.

It also makes the folders of results that `metrics`, `tables` and `report` read whole.

In a clone the stage runs when a file of pipeline/ changed. In a project made by `referee init` the package is
installed elsewhere, and the stage runs at every `dvc repro`, for a second; then only what a new version changed runs.
"""

import itertools
import json
from typing import Any

from pipeline import paths
from pipeline.code_fingerprints import fingerprints
from pipeline.config.params import load_params, section_defaults
from pipeline.installed_project import require_current_graph
from pipeline.stage import BY_NAME, Context, Stage, entries_of, find_stage, stage, stage_names
from pipeline.write_aside import write_text


@stage(reads=("compare", "data", "refinement", "select", "sensitivity", "views"))
def code(context: Context) -> str:
    """Write cache/code/STAGE.json or STAGE-KEY.json for every stage."""
    require_current_graph()
    params = load_params()
    stages = [find_stage(name) for name in stage_names() if name != "code"]
    for declared in stages:
        content = dependencies(declared)
        sections = declared.per if declared.settings else ()
        for keys in itertools.product(*(entries_of(params, section) for section in sections)):
            if declared.settings:
                content["settings"] = declared.settings(params, *keys)
            write_text(paths.stage_code(declared.name, *keys), json.dumps(content, indent=1) + "\n")
    write_text(paths.evaluations(context.suite) / "README.md", "Figures, one file per problem.\n")
    write_text(paths.problems(context.suite) / "README.md", "Results, one folder per problem.\n")
    write_text(paths.streams(context.suite) / "README.md", "Labels and figures, a pair per step.\n")
    return f"{len(stages)} stages"


def dependencies(declared: Stage) -> dict[str, Any]:
    """Return what decides a stage's outputs besides its inputs, its settings and the parameters that DVC tracks."""
    by_name = [s for s in sorted(declared.reads) if declared.settings is None or s in BY_NAME]
    defaults = {section: section_defaults(section) for section in by_name}
    if declared.version is not None:
        return {"version": declared.version, "defaults": defaults}
    return {"files": fingerprints(declared.name), "defaults": defaults}
