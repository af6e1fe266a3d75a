"""ZLaP (Stojnić et al., CVPR 2024): label propagation from class names over a graph of the unlabelled rows.

Nodes are the classes and the rows. A row is linked to its nearest rows with their cosine as weight and to its nearest
classes with weight cos(v, t)^γ. W adds both directions, S = D^(−½) W D^(−½). The columns of (I − αS)⁻¹ at the class
nodes are the scores of all nodes. In the authors' inductive form, used here, a test row's score is the sum of the
scores of its nearest rows and classes, weighted by its similarity to them. Their constants for CLIP are k = 5, γ = 5,
α = 0.3. As in their program, a row counts as one of its own k nearest rows, and that link is then removed.

Deviation from the authors: the inverse is a sum of 30 terms of its series, the last below 1e-15, and is not computed by
conjugate gradients. Choices for continual use: Links are within a task, so that the inverse has one block per task,
which is final after the task. Test rows look for neighbours among the rows of all tasks so far, so these target rows
and their scores are **kept** (no source row is). The classes are those seen so far.

`zlap` uses CLIP's rows and texts. `zlap-pseudo` uses the vision model's rows. Its links from rows to classes are p̂ of
the pseudo-label instead of cos^γ, and test rows are linked only to rows.
"""

from collections.abc import Iterator

import numpy as np
import scipy.sparse

from pipeline.comparison.unlabelled_tasks import Space, UnlabelledTask, edges, nearest, transductive_methods
from pipeline.method.rows import Labels, Matrix64

NEIGHBOURS = 5  # k
GAMMA = 5.0
ALPHA = 0.3
TERMS = 30  # 0.3³⁰ is 2e-16


def run(space: Space) -> list[Labels]:
    """Return the class (n,) of each test row after each task."""
    return [scores.argmax(axis=1) for scores in scores_of_tests(space)]


def scores_of_tests(space: Space) -> Iterator[Matrix64]:
    """Yield the scores (n, C) of the test rows after each task."""
    text = space.text
    C = space.test_logits.shape[1]
    # neighbours of the test rows, and the scores of all rows and classes so far
    index, cosine = np.zeros((len(space.test), 0), dtype=np.intp), np.zeros((len(space.test), 0))
    row_scores, class_scores = np.zeros((0, C)), np.zeros((C, C))
    for task in space.tasks:
        links = strongest(task.prior if text is None else similarity(task.rows, text[task.classes]))
        scores = propagated(task, links)
        new_scores = np.zeros((len(task.rows), C))
        new_scores[:, task.classes] = scores[len(task.classes) :]
        class_scores[np.ix_(task.classes, task.classes)] = scores[: len(task.classes)]
        new_index, new_cosine = nearest(space.test, task.rows, NEIGHBOURS)
        index, cosine = np.hstack([index, len(row_scores) + new_index]), np.hstack([cosine, new_cosine])
        best = np.argsort(-cosine, axis=1, kind="stable")[:, :NEIGHBOURS]
        index, cosine = np.take_along_axis(index, best, axis=1), np.take_along_axis(cosine, best, axis=1)
        row_scores = np.vstack([row_scores, new_scores])
        result = edges(index, np.maximum(cosine, 0), len(row_scores)) @ row_scores
        K = task.classes_seen
        if text is not None:
            result = result + strongest(similarity(space.test, text[:K])) @ class_scores[:K]
        yield np.asarray(result[:, :K])


def similarity(rows: Matrix64, text: Matrix64) -> Matrix64:
    """Return cos(v, t)^γ (n, c), 0 where the cosine is negative."""
    return np.asarray(np.maximum(rows @ text.T, 0) ** GAMMA)


def strongest(links: Matrix64) -> Matrix64:
    """Return the links (n, c) with all but the k largest of each row set to 0."""
    k = min(NEIGHBOURS, links.shape[1])
    best = np.argsort(-links, axis=1, kind="stable")[:, :k]
    kept = np.zeros_like(links)
    np.put_along_axis(kept, best, np.take_along_axis(links, best, axis=1), axis=1)
    return kept


def propagated(task: UnlabelledTask, links: Matrix64) -> Matrix64:
    """Return the scores (c + n, c) of the classes and the rows, the first c columns of (I − αS)⁻¹."""
    n, c = links.shape
    index, cosine = task.neighbours  # k − 1 per row
    among_rows = edges(index, np.maximum(cosine, 0), n)
    W = scipy.sparse.block_array([[None, links.T], [links, among_rows + among_rows.T]])
    degree = np.asarray(W.sum(axis=1)).ravel()
    root = scipy.sparse.diags_array(1 / np.sqrt(np.where(degree > 0, degree, 1.0)))  # 1 for nodes without links
    S = scipy.sparse.csr_array(root @ W @ root)
    first = np.eye(c + n, c)
    scores = first
    for _ in range(TERMS):
        scores = first + ALPHA * (S @ scores)
    return scores


METHODS = transductive_methods("zlap", "ZLaP (task by task, keeps target rows)", run)
