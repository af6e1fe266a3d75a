"""Open a project's cached features, labels, splits and adapted models from Python."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from pipeline import paths
from pipeline.api.feature_rows import FeatureRows
from pipeline.config.params import PARAMS_FILE, SUITE_FILE, Params, get_entry, load_params, newest_step, streams_of
from pipeline.config.suite import StepEntry
from pipeline.errors import listed
from pipeline.method.rows import Labels
from pipeline.problem.adapted_model import AdaptedModel, open_adapted_model, open_stream_model
from pipeline.problem.domain import LabelledDomain
from pipeline.problem.method_options import method_options
from pipeline.problem.problem import Project
from pipeline.problem.seed import Seed
from pipeline.revision_files import RevisionFiles
from pipeline.stage import open_project
from pipeline.store.basis_file import read_bases

if TYPE_CHECKING:
    import pandas as pd

    from pipeline.api.row_dataset import RowDataset

Method = Callable[[Seed], Sequence[Labels]]


def open_cache(folder: str | Path = ".", *, rev: str | None = None) -> FeatureCache:
    """Open the cached features of a project.

    Parameters
    ----------
    folder : str or Path, default "."
        The project's folder, or the URL of its git repository.
    rev : str, optional
        A commit, branch or tag; of a URL, the default branch if omitted. Files are then fetched from the repository's
        DVC cache or remote into a temporary folder when they are needed. Nothing is checked out.

    Returns
    -------
    FeatureCache

    Raises
    ------
    RefereeError
        If a file or key is missing or wrong: one line that names it and says how to fix it. The methods of the cache
        raise it too.

    Examples
    --------
    >>> cache = open_cache(small_project)
    >>> cache.domains, cache.models, list(cache.problems)
    (('left', 'right'), ('vit', 'clip'), ['left-right'])
    >>> rows = cache.rows("left", "vit")
    >>> rows
    <FeatureRows left vit original: 24 rows of 24 numbers>
    >>> train, test = rows.split(seed=0)
    >>> train.numpy().shape, test.labels.tolist()
    ((16, 24), [0, 0, 1, 1, 2, 2, 3, 3])
    >>> rows.paths[0], rows.classes[rows.labels[0]], int(rows.task[0])
    ('data/left/ant/0.png', 'ant', 1)
    """
    if rev is None and Path(folder).is_dir():
        return FeatureCache(Path(folder))
    return FeatureCache(RevisionFiles(str(folder), rev))


class FeatureCache:
    """The cached features of a project, as returned by `open_cache`.

    Attributes
    ----------
    params : Params
        The settings in params.yaml and suite.yaml.
    """

    def __init__(self, files: Path | RevisionFiles) -> None:
        self._files = files
        self._fetch(PARAMS_FILE, SUITE_FILE)
        self.params: Params = load_params(self._root)

    @property
    def domains(self) -> tuple[str, ...]:
        """The names of the domains."""
        return tuple(self.params.domains)

    @property
    def models(self) -> tuple[str, ...]:
        """The names of the models whose features are cached, followed by the joined models."""
        return (*self.params.models, *(entry.name for entry in self.params.joined))

    @property
    def problems(self) -> Mapping[str, tuple[str, str]]:
        """The source and target of each problem, by name."""
        return {name: (problem.source, problem.target) for name, problem in self.params.problems.items()}

    @property
    def streams(self) -> Mapping[str, tuple[str, ...]]:
        """The keys of the steps of each stream; steps whose images are gone come first."""
        return {name: tuple(states) for name, states in streams_of(self.params).items()}

    def rows(self, domain: str, model: str, view: str = "original") -> FeatureRows:
        """Return the features that a model computed for a domain's images.

        Parameters
        ----------
        domain, model : str
            A key of `domains`, and a key of `models` or a name in `joined`, in suite.yaml.
        view : str, default "original"
            One of the domain's views: ``original``, ``zeros``, ``rand``.

        Returns
        -------
        FeatureRows
            Rows of shape (n, d), read on demand.
        """
        get_entry("domains", self.params.domains, domain)
        get_entry("models", dict.fromkeys(self.models), model)
        self._fetch(paths.manifest(domain), paths.embeddings(domain, model))
        labelled_domain = LabelledDomain(domain, model, self.params.language, root=self._root)
        return FeatureRows(labelled_domain, model, view)

    def dataset(
        self,
        domain: str,
        model: str,
        view: str = "original",
        *,
        part: Literal["all", "train", "test"] = "all",
        seed: int | None = None,
    ) -> RowDataset:
        """Return features and labels as a `torch.utils.data.Dataset` of pairs (row, label).

        Parameters
        ----------
        domain, model, view : str
            As in `rows`.
        part : {"all", "train", "test"}, default "all"
            Which images to include.
        seed : int, optional
            The seed of the train/test split; the first seed if omitted.

        Returns
        -------
        RowDataset
        """
        from pipeline.api.row_dataset import RowDataset  # imports torch

        rows = self.rows(domain, model, view)
        if part != "all":
            train, test = rows.split(rows.seeds[0] if seed is None else seed)
            rows = train if part == "train" else test
        return RowDataset(rows, rows.labels)

    def model(self, problem: str, *, after: int | None = None, seed: int | None = None) -> AdaptedModel:
        """Return an adapted model; its `predict` takes the features of new images.

        Parameters
        ----------
        problem : str
            A key of `problems` in suite.yaml.
        after : int, optional
            The task after which the model is taken, counted from 1; the last task if omitted.
        seed : int, optional
            The first seed if omitted.

        Returns
        -------
        AdaptedModel
        """
        params = self.params
        source, target = self._source_and_target(problem)
        needed = (paths.bases(source), paths.source_model(source), paths.target_model(problem))
        self._fetch(*needed, *self._feature_paths(target), paths.prompts(target))
        return open_adapted_model(
            self._project.problem(problem),
            method_options(params.method.variant, params.method.options),
            params.rff.model_dump(),
            seed=seed,
            after_task=after,
        )

    def stream_model(self, stream: str, *, after: str | None = None) -> AdaptedModel:
        """Return the adapted model of a stream of unlabelled images.

        Parameters
        ----------
        stream : str
            A key of `streams`.
        after : str, optional
            The name of the step after which the model is taken; the newest step if omitted.

        Returns
        -------
        AdaptedModel
        """
        params = self.params
        step = newest_step(params, stream, after)
        state = params.steps.get(step) or params.past[step]
        # The domain's stores name the backbones that new images need. If the step's images are gone, use the source's.
        domain = state.domain if isinstance(state, StepEntry) else state.source
        self._fetch(paths.stream_state(step), paths.bases(state.source), *self._feature_paths(domain))
        return open_stream_model(
            step,
            self._project.domain(domain),
            method_options(params.method.variant, params.method.options),
            params.rff.model_dump(),
        )

    def compare(self, method: str | Method, problem: str | None = None) -> pd.DataFrame:
        """Score a method on the same features, splits and bases as the stage `compare`.

        Parameters
        ----------
        method : str or callable
            A name that is valid in `compare.methods` of params.yaml, or a function. It takes a `Seed`, which holds no
            target labels, and returns for each task the classes (n,) predicted for ``seed.target.test`` after it.
        problem : str, optional
            All problems if omitted.

        Returns
        -------
        pandas.DataFrame
            One row per problem, in percent: ``A_T``, ``A_T_sd``, ``average_incremental``, ``forgetting``,
            ``A_T_per_seed``.
        """
        import pandas as pd

        from pipeline.comparison.registry import compared_method
        from pipeline.report.problem_figures import accuracy_figures

        run = compared_method(method).run if isinstance(method, str) else method
        figures = {}
        for name in self.problems if problem is None else (problem,):
            source, target = self._source_and_target(name)
            self._fetch(paths.bases(source), paths.prompts(target))
            self._fetch(*self._feature_paths(source), *self._feature_paths(target))
            bases = read_bases(self._root / paths.bases(source))
            labelled = self._project.labelled_problem(name)
            figures[name] = accuracy_figures(
                [
                    labelled.accuracies(seed_index, run(labelled.seed(seed_index, bases.basis(seed_index))))
                    for seed_index in range(len(labelled.target.seeds))
                ]
            )
        return pd.DataFrame.from_dict(figures, orient="index")

    def __repr__(self) -> str:
        parts = ("domains", self.domains), ("models", self.models), ("problems", self.problems)
        return f"<FeatureCache {'; '.join(f'{key} {listed(names)}' for key, names in parts)}>"

    @cached_property
    def _project(self) -> Project:
        return open_project(self.params, self._root)

    def _source_and_target(self, problem: str) -> tuple[str, str]:
        entry = get_entry("problems", self.params.problems, problem)
        return entry.source, entry.target

    def _feature_paths(self, domain: str) -> tuple[Path, ...]:
        models = (self.params.vision, self.params.language)
        return paths.manifest(domain), *(paths.embeddings(domain, model) for model in models)

    @property
    def _root(self) -> Path:
        return self._files if isinstance(self._files, Path) else self._files.folder

    def _fetch(self, *needed: Path) -> None:
        """Fetch outputs of a revision; in a project's own folder, `dvc repro` must have written them."""
        if isinstance(self._files, RevisionFiles):
            for path in needed:
                self._files.bring(path)
