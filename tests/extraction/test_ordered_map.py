from pipeline.extraction.ordered_map import ordered_map, worker_count


def test_no_more_than_ahead_are_taken_in():
    taken = []

    def items():
        for i in range(50):
            taken.append(i)
            yield i

    stream = ordered_map(lambda i: i, items(), workers=2, ahead=3)
    for expected in range(10):
        assert next(stream) == expected
        assert len(taken) <= expected + 5
    stream.close()


def test_the_number_of_threads_is_that_asked_for_or_the_cores():
    assert worker_count(3) == 3
    assert worker_count(0) >= 1
