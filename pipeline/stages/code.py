"""Stage `code`: write for each stage a file of dependencies that DVC cannot see, such as imported code and defaults.

Every stage depends on its file, cache/code/STAGE.json or, if its settings differ by key, STAGE-KEY.json. The file holds

- the `pipeline.code_fingerprints` of all modules that the stage may import, or only a version number if its outputs
  take hours (as for `manifest`, `embed` and `prompts`), so that refactoring never discards features;
- the stage's ``settings`` for its keys, if it declares any;
- the defaults of the sections that DVC tracks by name for the stage, because a value that is missing from params.yaml
  is a dependency as well.

This stage also creates the result folders on which `metrics`, `tables` and `report` depend.

In a clone it runs whenever a file of pipeline/ changes. In a project made by `referee init` the package is installed
elsewhere, so it runs at every `dvc repro` and takes a second. After an upgrade only the stages that changed run again.
"""

import itertools
import json
from typing import Any

from pipeline import paths
from pipeline.code_fingerprints import fingerprints
from pipeline.config.params import load_params, section_defaults
from pipeline.installed_project import require_current_graph
from pipeline.stage import TRACKED_SECTIONS, Context, Stage, entries_of, find_stage, stage, stage_names
from pipeline.write_aside import write_text


@stage(reads=("compare", "data", "refinement", "select", "sensitivity", "views"))
def code(context: Context) -> str:
    """Write cache/code/STAGE.json or STAGE-KEY.json for every stage."""
    require_current_graph()
    params = load_params()
    stages = [find_stage(name) for name in stage_names() if name != "code"]
    for declaration in stages:
        content = dependencies(declaration)
        sections = declaration.per if declaration.settings else ()
        for keys in itertools.product(*(entries_of(params, section) for section in sections)):
            if declaration.settings:
                content["settings"] = declaration.settings(params, *keys)
            write_text(paths.stage_code(declaration.name, *keys), json.dumps(content, indent=1) + "\n")
    write_text(paths.evaluations(context.suite) / "README.md", "Figures, one file per problem.\n")
    write_text(paths.problems(context.suite) / "README.md", "Results, one folder per problem.\n")
    write_text(paths.streams(context.suite) / "README.md", "Labels and figures, a pair per step.\n")
    return f"{len(stages)} stages"


def dependencies(declaration: Stage) -> dict[str, Any]:
    """Return the code fingerprints or version of a stage, and the defaults of the sections that DVC tracks for it."""
    tracked = [s for s in sorted(declaration.reads) if declaration.settings is None or s in TRACKED_SECTIONS]
    defaults = {section: section_defaults(section) for section in tracked}
    if declaration.version is not None:
        return {"version": declaration.version, "defaults": defaults}
    return {"files": fingerprints(declaration.name), "defaults": defaults}
