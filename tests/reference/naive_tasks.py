"""Naive oracles of tasks and splits.

Tasks (docs/parameters.md, `classes_per_task`): classes in sorted order; the last task takes the remainder.

Splits (docs/method.md): train and test are disjoint and drawn once per domain and seed, here for one class. Distinct
contents are sorted by sha256("DOMAIN\\nSEED\\nCONTENT"), and the first round(fraction * n) are test: at least one if
there are two, but never all. A content that also occurs in another class is never test.
"""

import hashlib


def naive_tasks(classes, per_task):
    queue = sorted(classes)
    tasks = []
    while len(queue) >= 2 * per_task:
        tasks.append([queue.pop(0) for _ in range(per_task)])
    tasks.append(queue)
    return tasks


def naive_test_contents(domain, seed, contents, fraction, elsewhere=()):
    def key(content):
        return hashlib.sha256(f"{domain}\n{seed}\n{content}".encode()).hexdigest()

    drawn = sorted(set(contents), key=key)
    wanted = min(max(round(fraction * len(drawn)), 1), len(drawn) - 1)
    return [content for content in drawn if content not in elsewhere][:wanted]
