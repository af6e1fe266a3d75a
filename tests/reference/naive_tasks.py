"""Tasks and splits.

Tasks (docs/parameters.md, `classes_per_task`): classes in sorted order, the last task takes the remainder.

Splits (docs/method.md): train and test disjoint, drawn once per domain and seed; here for one class. The draw: distinct
contents in the order of sha256("DOMAIN\\nSEED\\nCONTENT"), the first round(fraction * n) are test, at least one if
there are two, never all. A content that some other class has too is never test.
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
