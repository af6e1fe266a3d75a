"""Peak memory of the statistics stages by number of rows: labels and probabilities stay in memory, not embeddings."""

import pytest

from benchmarks.scale import VIEWS, WIDTH, run

FEW, MANY = 90_000, 180_000  # more than 87,000, up to which views (128 MB) are read in one go
ROW_BYTES = len(VIEWS) * WIDTH * 2  # size of one image's embeddings in the store
STAGES = ("source", "adapt", "evaluate")


@pytest.mark.long
def test_memory_grows_by_labels_and_not_by_embeddings(tmp_path):
    options = {"method": {"variant": "calibrated", "options": {"rounds": 1}}}
    few = run(tmp_path / "few", FEW, **options)
    many = run(tmp_path / "many", MANY, **options)
    for stage in STAGES:
        growth = (many[stage][1] - few[stage][1]) / (MANY - FEW)
        assert growth < ROW_BYTES / 2, f"{stage}: {growth:.0f} bytes per row"
        assert many[stage][1] < 1.2e9
