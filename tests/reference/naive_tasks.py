"""docs/parameters.md, `classes_per_task`: classes in sorted order, the last task takes the remainder."""


def naive_tasks(classes, per_task):
    queue = sorted(classes)
    tasks = []
    while len(queue) >= 2 * per_task:
        tasks.append([queue.pop(0) for _ in range(per_task)])
    tasks.append(queue)
    return tasks
