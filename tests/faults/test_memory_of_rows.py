"""Peak memory of the statistics stages over the rows: a row's labels and probabilities may stay, its embeddings not."""

import pytest

from benchmarks.scale import VIEWS, WIDTH, run

FEW, MANY = 90_000, 180_000  # views of up to 128 MB, 87,000 rows, are read whole: these are not
ROW_BYTES = len(VIEWS) * WIDTH * 2  # of one image's embeddings as they are stored
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
