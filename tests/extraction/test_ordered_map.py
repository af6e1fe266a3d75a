from pipeline.extraction.ordered_map import ordered_map


def test_only_a_few_items_are_taken_in_ahead_of_the_results():
    taken = []

    def items():
        for i in range(50):
            taken.append(i)
            yield i

    stream = ordered_map(lambda i: i, items(), workers=2)
    for expected in range(10):
        assert next(stream) == expected
        assert len(taken) <= expected + 6
    stream.close()
