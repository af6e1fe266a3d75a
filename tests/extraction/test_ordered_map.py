import threading
import time

import pytest

from pipeline.extraction.ordered_map import ordered_map, worker_count


def test_results_are_in_order_whatever_ends_first():
    def slow_first(i):
        time.sleep(0.02 if i % 3 == 0 else 0)
        return i

    assert list(ordered_map(slow_first, range(30), workers=4, ahead=6)) == list(range(30))


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


def test_an_exception_comes_where_its_result_would_have_been():
    def fail_at_five(i):
        if i == 5:
            raise KeyError(i)
        return i

    got = []
    with pytest.raises(KeyError):
        got.extend(ordered_map(fail_at_five, range(100), workers=2, ahead=4))
    stream = ordered_map(fail_at_five, range(100), workers=2, ahead=4)
    assert [next(stream) for _ in range(5)] == list(range(5))
    with pytest.raises(KeyError):
        next(stream)


def test_the_initializer_runs_in_every_worker():
    threads = set()
    list(
        ordered_map(
            lambda i: time.sleep(0.01),
            range(20),
            workers=3,
            ahead=9,
            initializer=lambda: threads.add(threading.get_ident()),
        )
    )
    assert threading.get_ident() not in threads
    assert len(threads) == 3


def test_the_number_of_threads_is_that_asked_for_or_the_cores():
    assert worker_count(3) == 3
    assert worker_count(0) >= 1
