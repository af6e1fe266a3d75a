"""ZLaP (Stojnić et al., CVPR 2024): label propagation from class names over a graph of the unlabelled rows.

Nodes are the classes and the rows. A row is linked to its nearest rows by their cosine and to its nearest classes by
cos(v, t)^γ; W adds both directions, S = D^(−½) W D^(−½). The columns of (I − αS)⁻¹ at the class nodes are the scores
of all nodes. A test row's score is the sum of those of its nearest rows and classes, times its similarity to them:
the authors' inductive form. Their constants for CLIP: k = 5, γ = 5, α = 0.3. As in their program a row counts among
its own k nearest and that link is then removed, which leaves k − 1.

The inverse is summed as a series instead of by conjugate gradients: 30 terms, of which the last is below 1e-15.

Where continual use forces a choice: links are within a task, so that the inverse has a block per task, which is final
after it. A test row looks for neighbours among the rows of all tasks so far: these rows and their scores are **kept**
(rows of the target; no source row). The classes are those seen so far.

`zlap` has CLIP's rows and texts. `zlap-pseudo` has the vision model's rows: a row is linked to the classes by p̂ of
its pseudo-label in place of cos^γ, and a test row to rows alone.
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
    index, cosine = np.zeros((len(space.test), 0), dtype=np.intp), np.zeros((len(space.test), 0))  # of test rows
    of_rows, of_classes = np.zeros((0, C)), np.zeros((C, C))
    for task in space.tasks:
        links = strongest(task.prior if text is None else similarity(task.rows, text[task.classes]))
        scores = propagated(task, links)
        columns = np.zeros((len(task.rows), C))
        columns[:, task.classes] = scores[len(task.classes) :]
        of_classes[np.ix_(task.classes, task.classes)] = scores[: len(task.classes)]
        near, similar = nearest(space.test, task.rows, NEIGHBOURS)
        index, cosine = np.hstack([index, len(of_rows) + near]), np.hstack([cosine, similar])
        best = np.argsort(-cosine, axis=1, kind="stable")[:, :NEIGHBOURS]
        index, cosine = np.take_along_axis(index, best, axis=1), np.take_along_axis(cosine, best, axis=1)
        of_rows = np.vstack([of_rows, columns])
        result = edges(index, np.maximum(cosine, 0), len(of_rows)) @ of_rows
        K = task.classes_seen
        if text is not None:
            result = result + (strongest(similarity(space.test, text[:K])) @ of_classes[:K])
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
    """Return the scores (c + n, c) of the classes and the rows: the first c columns of (I − αS)⁻¹."""
    n, c = links.shape
    index, cosine = task.neighbours  # k − 1
    among_rows = edges(index, np.maximum(cosine, 0), n)
    W = scipy.sparse.block_array([[None, links.T], [links, among_rows + among_rows.T]])
    degree = np.asarray(W.sum(axis=1)).ravel()
    root = scipy.sparse.diags_array(1 / np.sqrt(np.where(degree > 0, degree, 1.0)))  # a node without links stays so
    S = scipy.sparse.csr_array(root @ W @ root)
    first = np.eye(c + n, c)
    scores = first
    for _ in range(TERMS):
        scores = first + ALPHA * (S @ scores)
    return scores


METHODS = transductive_methods("zlap", "ZLaP (task by task, keeps target rows)", run)
