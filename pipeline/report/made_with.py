"""What a result was made with: the parameters that its numbers depend on, kept in the file beside them.

DVC runs whatever part of the graph one asks for, so results of other parameters may lie next to fresh ones. Every
result file holds its own, and whoever shows a number compares them with params.yaml and says where they differ.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from pipeline import paths
from pipeline.errors import listed

MadeWith = Mapping[str, Any]  # "section.key" -> value, as JSON has it

SECTIONS = ("data", "language", "method", "refinement", "rff", "views", "vision")
# how files are read and what is pushed: no number depends on it
WITHOUT_EFFECT = ("data.unreadable", "data.empty_class", "data.max_pixels", "data.private")
FEATURES = tuple(f"{paths.CACHE}/{kind}/" for kind in ("embeddings", "manifests", "prompts"))


def made_with(params: Mapping[str, Any]) -> dict[str, Any]:
    """Return the parameters behind a result, by their dotted names.

    Examples
    --------
    >>> made_with({"rff": {"D": 500, "sigma": 0.1}, "vision": "vit", "suite": "digits"})
    {'vision': 'vit', 'rff.D': 500, 'rff.sigma': 0.1}
    """
    found: dict[str, Any] = {}
    for name in SECTIONS:
        section = params.get(name)
        if isinstance(section, Mapping):
            found |= {f"{name}.{key}": value for key, value in section.items()}
        elif section is not None:
            found = {name: section, **found}
    return {key: value for key, value in found.items() if key not in WITHOUT_EFFECT}


def changed_parameters(made: MadeWith, now: MadeWith) -> list[str]:
    """Return how the parameters behind a result differ from those of today, as ``key=value`` of the result.

    Only what the result depends on counts: keys that ``made`` lacks are not looked at.

    Examples
    --------
    >>> changed_parameters({"rff.D": 500, "vision": "vit"}, {"rff.D": 1000, "vision": "vit", "data.seeds": [0]})
    ['rff.D=500']
    """
    return [
        f"{key}={value:g}" if isinstance(value, float) else f"{key}={value}"
        for key, value in made.items()
        if value != now.get(key)
    ]


def stale_notes(results: Mapping[str, MadeWith], now: MadeWith, remedy: str) -> list[str]:
    """Return a line for every group of results that were made with the same other parameters than today's.

    ``remedy`` is the command that makes the results again.
    """
    groups: dict[str, list[str]] = {}
    for name, made in results.items():
        if differ := changed_parameters(made, now):
            groups.setdefault(", ".join(differ), []).append(name)
    return [
        f"not of today's params.yaml: {', '.join(names)} made with {what}; run {remedy}"
        for what, names in groups.items()
    ]


def former_features(stages: Mapping[str, Any], names: Iterable[str]) -> list[str]:
    """Return a line for each of these stages that was run on other features than those that dvc.lock names now.

    After `git pull`, `dvc repro --allow-missing` takes features of the former commit that lie in cache/ for those of
    this one, where DVC's own cache lacks the new ones.

    Examples
    --------
    >>> embed = {"outs": [{"path": "cache/embeddings/uci/vit.zarr", "md5": "b1.dir"}]}
    >>> source = {"deps": [{"path": "cache/embeddings/uci/vit.zarr", "md5": "a0.dir"}]}
    >>> former_features({"embed@uci-vit": embed, "source@uci": source}, ["source@uci"])[0][:59]
    'source@uci was run on a former cache/embeddings/uci/vit.zar'
    """
    outputs = {out["path"]: out["md5"] for entry in stages.values() for out in entry.get("outs", ()) if "md5" in out}
    notes = []
    for name in names:
        read = {dep["path"]: dep.get("md5") for dep in stages.get(name, {}).get("deps", ())}
        former = [path for path, md5 in read.items() if path.startswith(FEATURES) and outputs.get(path, md5) != md5]
        if former:
            notes.append(
                f"{name} was run on a former {listed(former, most=1)}; "
                "run dvc pull --allow-missing, then dvc repro --pull --allow-missing"
            )
    return notes
