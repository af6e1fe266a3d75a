"""Memory aware synapses on a head (Aljundi et al., ECCV 2018).

Eqs. (2), (3): Ω = mean over rows of |∂‖F(x)‖²/∂θ|, F the outputs, L = L_n + λ Σ Ω (θ − θ*)²; Ω adds up over tasks. Ω
needs no label. The paper therefore measures it on unlabelled rows of the domain where the model will be used, too:
here on the task's source rows and the target's rows.

Head-only: the backbone is frozen, so only the head's layers have an importance.
"""

from __future__ import annotations

import torch

from pipeline.comparison.head_training.anchored_penalty import AnchoredTuning, output_sensitivity
from pipeline.comparison.head_training.growing_head import GrowingHead, TaskRows
from pipeline.comparison.head_training.training_loop import head_method


class MemoryAwareSynapses(AnchoredTuning):
    """Fine-tuning with eq. (3)."""

    strength = 1e-4  # λ

    def end_task(self, head: GrowingHead, rows: TaskRows) -> None:
        """Add the task's importances, eq. (2)."""
        x = torch.cat([rows.x, rows.target])
        if len(x):
            self.add_importance(head, output_sensitivity(head, x))


METHODS = {"mas-head": head_method("MAS", MemoryAwareSynapses)}
