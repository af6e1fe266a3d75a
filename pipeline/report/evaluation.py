"""What `evaluate` measured on a problem, as the readers of its file see it."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, FiniteFloat


class ProblemFigures(BaseModel):
    """The figures of the adapted model on a problem, in percent, as `evaluate` writes them."""

    A_T: FiniteFloat
    A_T_sd: FiniteFloat
    forgetting: FiniteFloat
    source_only_A_T: FiniteFloat
    clip_only_A_T: FiniteFloat
    test_images: int  # per seed
    classes: int
    made_with: dict[str, Any]  # see `pipeline.report.made_with`
    pseudo_label_accuracy: FiniteFloat | None = None  # none was kept
    weight_auroc: FiniteFloat | None = None  # all are right, or all are wrong
    ece: dict[str, FiniteFloat] = {}
