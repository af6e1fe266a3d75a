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
    distinct = []
    for content in contents:
        if content not in distinct:
            distinct.append(content)
    wanted = round(fraction * len(distinct))
    if wanted == 0:
        wanted = 1
    while wanted >= len(distinct):
        wanted -= 1
    keyed = []
    for content in distinct:
        text = domain + "\n" + str(seed) + "\n" + content
        keyed.append((hashlib.sha256(text.encode("utf-8")).hexdigest(), content))
    keyed.sort()
    test = []
    for _, content in keyed:
        if content not in elsewhere and len(test) < wanted:
            test.append(content)
    return test
