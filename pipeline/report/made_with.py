"""Record the parameters that a result depends on, and find results that were made with other ones.

DVC runs any part of the graph on request, so results of older parameters may lie next to fresh ones. Every result file
therefore holds its own parameters, and code that shows a number compares them with params.yaml and says what differs.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from pipeline import paths
from pipeline.errors import listed

MadeWith = Mapping[str, Any]  # "section.key" -> value, as JSON has it

SECTIONS = ("data", "language", "method", "refinement", "rff", "views", "vision")
# settings for reading and pushing files; no number depends on them
WITHOUT_EFFECT = ("data.unreadable", "data.empty_class", "data.max_pixels", "data.private")
FEATURES = tuple(f"{paths.CACHE}/{kind}/" for kind in ("embeddings", "manifests", "prompts"))


def made_with(params: Mapping[str, Any]) -> dict[str, Any]:
    """Return the parameters behind a result by dotted name.

    Examples
    --------
    >>> made_with({"rff": {"D": 500, "sigma": 0.1}, "vision": "vit", "suite": "digits"})
    {'vision': 'vit', 'rff.D': 500, 'rff.sigma': 0.1}
    """
    parameters: dict[str, Any] = {}
    for name in SECTIONS:
        section = params.get(name)
        if isinstance(section, Mapping):
            parameters |= {f"{name}.{key}": value for key, value in section.items()}
        elif section is not None:
            parameters = {name: section, **parameters}
    return {key: value for key, value in parameters.items() if key not in WITHOUT_EFFECT}


def changed_parameters(recorded: MadeWith, current: MadeWith) -> list[str]:
    """Return the recorded parameters of a result that differ from the current ones, as ``key=value``.

    Keys that are not recorded are ignored: the result does not depend on them.

    Examples
    --------
    >>> changed_parameters({"rff.D": 500, "vision": "vit"}, {"rff.D": 1000, "vision": "vit", "data.seeds": [0]})
    ['rff.D=500']
    """
    return [
        f"{key}={value:g}" if isinstance(value, float) else f"{key}={value}"
        for key, value in recorded.items()
        if value != current.get(key)
    ]


def stale_notes(results: Mapping[str, MadeWith], current: MadeWith, remedy: str) -> list[str]:
    """Return a line for each group of results that differ from the current parameters in the same way.

    ``remedy`` is the command that computes the results again.
    """
    groups: dict[str, list[str]] = {}
    for name, recorded in results.items():
        if changes := changed_parameters(recorded, current):
            groups.setdefault(", ".join(changes), []).append(name)
    return [
        f"not of today's params.yaml: {', '.join(names)} made with {changes}; run {remedy}"
        for changes, names in groups.items()
    ]


def former_feature_notes(stages: Mapping[str, Any], names: Iterable[str]) -> list[str]:
    """Return a line for each of these stages that was run on other features than dvc.lock now names.

    After `git pull`, `dvc repro --allow-missing` uses the former commit's features in cache/ if DVC's own cache lacks
    the new ones.

    Examples
    --------
    >>> embed = {"outs": [{"path": "cache/embeddings/uci/vit.zarr", "md5": "b1.dir"}]}
    >>> source = {"deps": [{"path": "cache/embeddings/uci/vit.zarr", "md5": "a0.dir"}]}
    >>> former_feature_notes({"embed@uci-vit": embed, "source@uci": source}, ["source@uci"])[0][:59]
    'source@uci was run on a former cache/embeddings/uci/vit.zar'
    """
    outputs = {out["path"]: out["md5"] for entry in stages.values() for out in entry.get("outs", ()) if "md5" in out}
    notes = []
    for name in names:
        inputs = {dep["path"]: dep.get("md5") for dep in stages.get(name, {}).get("deps", ())}
        former = [path for path, md5 in inputs.items() if path.startswith(FEATURES) and outputs.get(path, md5) != md5]
        if former:
            notes.append(
                f"{name} was run on a former {listed(former, most=1)}; "
                "run dvc pull --allow-missing, then dvc repro --pull --allow-missing"
            )
    return notes
