import numpy as np

from pipeline.method.adaptation import PseudoLabels
from pipeline.store.array_store import open_arrays, write_arrays
from pipeline.store.pseudo_label_store import NO_LABEL, SCHEMA, label_arrays, read_labels_of_seed

FIRST = PseudoLabels(
    np.array([1, 0]),
    np.array([[0.1, 0.9], [0.8, 0.2]]),
    np.array([0.5, 0.3]),
    np.array([True, False]),
)
SECOND = PseudoLabels(np.array([2]), np.array([[1.0]]), np.array([1.0]), np.array([True]))


def test_labels_are_found_again_at_their_rows(tmp_path):
    places = [np.array([4, 1]), np.array([2])]
    arrays = label_arrays([list(zip(places, (FIRST, SECOND), strict=True))], rows=6)
    write_arrays(tmp_path / "p.zarr", SCHEMA, arrays, {})
    read = read_labels_of_seed(open_arrays(tmp_path / "p.zarr", SCHEMA), 0)
    assert read.label.tolist() == [NO_LABEL, 0, 2, NO_LABEL, 1, NO_LABEL]
    for place, given in zip(places, (FIRST, SECOND), strict=True):
        got = read.of(place, given.fused.shape[1])
        assert np.array_equal(got.label, given.label)
        assert np.array_equal(got.fused, given.fused)
        assert np.array_equal(got.weight, given.weight)
        assert np.array_equal(got.kept, given.kept)
