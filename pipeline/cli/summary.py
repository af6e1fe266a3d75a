"""Show the results as tables.

The first table rates the features: zero-shot and nearest-mean accuracy in each
domain. The second lists A_T, the accuracy after the last task, for each problem
(source and target domain): CLIP alone, the source model alone, and the method
with its variants. A third lists the steps of streams. Warnings below the tables
name results computed with other parameters than the current params.yaml or
from other features than those in dvc.lock, and models that only guess. With
--remote, reads the results that a teammate pushed, without pulling them. `make
repro` ends with this command.

reads:  params.yaml, suite.yaml, results/ (from `dvc repro` or `dvc pull`)
writes: nothing
examples:
  referee summary
  referee summary --remote
"""

from argparse import ArgumentParser
from collections.abc import Iterable, Iterator, Sequence
from contextlib import chdir
from dataclasses import replace
from tempfile import TemporaryDirectory

from pipeline import paths
from pipeline.config.params import Params, load_params
from pipeline.dvc_lock import read_stages
from pipeline.errors import InputError
from pipeline.report.made_with import MadeWith, former_feature_notes, made_with, stale_notes
from pipeline.report.page.provenance import figures_digest, shows_figures
from pipeline.report.results import guess_warnings, read_evaluation, read_probe, read_step
from pipeline.report.suite import read_suite
from pipeline.report.suite_tables import headline_table
from pipeline.report.table_formats import align, to_text
from pipeline.revision_files import RemoteOutputs


def feature_table(params: Params) -> str:
    """Return zero-shot and nearest-mean accuracy of the features of every domain."""
    rows = [("domain", "images", "zero-shot", "n", "nearest mean", "cosine to original")]
    warnings = []
    for domain in (key for key, described in params.domains.items() if described.labels != "none"):
        probe = read_probe(params.suite, domain)
        if probe.zero_shot is None:
            continue
        warnings += guess_warnings(probe, domain)
        views = ", ".join(f"{view} {cosine:.3f}" for view, cosine in probe.view_cosine.items())
        nearest = f"{probe.nearest_mean:.1%} ± {100 * (probe.nearest_mean_sd or 0):.1f}"
        figures = (str(probe.images), f"{probe.zero_shot:.1%}", str(probe.test_images), nearest)
        rows.append((domain, *figures, views or "-"))
    title = f"features of suite {params.suite}: vision {params.vision}, language {params.language}"
    note = "zero-shot: on all images; nearest mean: on n test images per seed"
    return _titled(title, rows, [note, *marked(warnings)])


def problem_table(params: Params, current: MadeWith) -> str:
    """Return A_T of every problem in percent, mean ± standard deviation over seeds, beside related accuracies."""
    rows = [("problem", "n", "CLIP alone", "source only", "adapted", "gain", "forgetting", "pseudo-labels")]
    made_with_by_problem = {}
    for name in params.problems:
        evaluation = read_evaluation(params.suite, name)
        made_with_by_problem[name] = evaluation.made_with
        accuracy = evaluation.pseudo_label_accuracy
        rows.append(
            (
                name,
                str(evaluation.test_images),
                f"{evaluation.clip_only_A_T:.1f}",
                f"{evaluation.source_only_A_T:.1f}",
                f"{evaluation.A_T:.1f}±{evaluation.A_T_sd:.1f}",
                f"{evaluation.A_T - evaluation.source_only_A_T:+.1f}",
                f"{evaluation.forgetting:.1f}",
                "none kept" if accuracy is None else f"{accuracy:.1f}",
            )
        )
    options = [f"{key} {value}" for key, value in params.method.options.items()]
    settings = ", ".join([f"variant {params.method.variant}", *options, f"D {params.rff.D}"])
    notes = marked(stale_notes(made_with_by_problem, current, "dvc repro evaluate"))
    return _titled(f"final accuracy A_T, {settings}", rows, ["n: test images per seed", *notes])


def stream_table(params: Params, steps: Iterable[str]) -> str:
    """Return agreement and estimated accuracy of each finished step; neither uses labels."""
    rows = [("step", "images", "corrected", "branches agree", "estimated accuracy")]
    for key in steps:
        figures = read_step(params.suite, key)
        shares = (f"{figures.agreement:.0%}", f"{figures.estimated_accuracy:.0%}")
        rows.append((key, str(figures.images), str(figures.corrected), *shares))
    return _titled("streams", rows, ["estimated accuracy: without labels, 8 points off on average"])


def marked(warnings: Sequence[str]) -> tuple[str, ...]:
    """Return warnings as notes below a table."""
    return tuple(f"! {warning}" for warning in warnings)


def _titled(title: str, rows: Sequence[Sequence[str]], notes: Sequence[str]) -> str:
    header, *lines = align(rows)
    return "\n".join([title, header, "-" * len(header), *lines, *notes]) + "\n"


def tables(params: Params) -> str:
    """Return the tables of all existing results; methods are compared only if every problem has a comparison."""
    suite, problems = params.suite, params.problems
    compared = problems and all(paths.comparison(suite, name).is_file() for name in problems)
    evaluated = problems and all(paths.evaluation(suite, name).is_file() for name in problems)
    # probes are absent after `dvc repro evaluate`, or if a teammate pulled only what changed
    probed = any(paths.probe(suite, domain).is_file() for domain in params.domains)
    finished_steps = [key for key in (*params.past, *params.steps) if paths.step_figures(suite, key).is_file()]
    if not (probed or finished_steps or compared or evaluated):
        raise InputError(f"results/{suite}: no results yet; run dvc repro, or dvc pull --allow-missing")
    texts = [feature_table(params)] if probed else []
    texts += [stream_table(params, finished_steps)] if finished_steps else []
    stale, current = list[str](), made_with(params.model_dump(mode="json"))
    if compared:
        measured = read_suite(suite, problems, params.domains)
        stale = stale_notes(measured.made_with, current, "dvc repro compare")
        texts.append(to_text(replace(headline_table(measured), warnings=marked(stale))))
    if problems and (not compared or (stale and evaluated) or _has_own_method(params)):
        texts.append(problem_table(params, current))
    return "\n".join(texts)


def remote_tables(params: Params) -> str:
    """Return the tables of the results on the DVC remote."""
    outputs = RemoteOutputs()
    files = [paths.probe(params.suite, domain) for domain in params.domains]
    files += [paths.comparison(params.suite, name) for name in params.problems]
    if _has_own_method(params):
        files += [paths.evaluation(params.suite, name) for name in params.problems]
    with TemporaryDirectory() as folder:
        for file in files:
            (folder / file).parent.mkdir(parents=True, exist_ok=True)
            (folder / file).write_bytes(outputs.read(file))
        with chdir(folder):
            text = tables(params)
    return f"{text}\non {outputs.name}, as of the last commit ({outputs.received / 1e3:.1f} kB read)\n"


def _has_own_method(params: Params) -> bool:
    """Return whether `evaluate` scored a method that `compare` does not run by name."""
    at_default = params.method.variant == "calibrated" and not params.method.options
    return not at_default or not params.refinement.off


def summary(*, remote: bool) -> Iterator[str]:
    """Yield the tables and the paths of features and report."""
    params = load_params()
    text = remote_tables(params) if remote else tables(params)
    yield f"\n{text}".removesuffix("\n")
    if remote:
        return
    names = [f"source@{key}" for key in params.sources]
    names += [f"{stage}@{key}" for stage in ("adapt", "evaluate", "compare") for key in params.problems]
    yield from marked(former_feature_notes(read_stages(), names))
    yield f"\nfeatures: referee inspect {paths.embeddings(next(iter(params.domains)), params.vision)}"
    page = paths.report(params.suite)
    if page.is_file():
        # DVC does not track the page: `git checkout` and `dvc exp apply` change the results but not the page
        is_current = shows_figures(page, figures_digest(paths.figures(params.suite, params.problems)))
        note = "open it in a browser; it needs no network"
        outdated = "shows other results than these: run dvc repro --force report"
        yield f"report: {page} ({note if is_current else outdated})"


def add_arguments(parser: ArgumentParser) -> None:
    """Add the options of the command."""
    parser.add_argument("--remote", action="store_true", help="show the results on the DVC remote without pulling")
