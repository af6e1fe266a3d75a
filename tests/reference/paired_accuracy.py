"""The covariance of final accuracies over test images, one image and one pair of methods after another."""


def final_accuracy(right, tasks):
    """Mean over the tasks of the mean of right answers."""
    per_task = []
    for task in sorted(set(tasks)):
        answers = [r for r, t in zip(right, tasks, strict=True) if t == task]
        per_task.append(sum(answers) / len(answers))
    return sum(per_task) / len(per_task)


def image_covariance(right, tasks, images):
    """Sum over distinct images of the products of what two methods' deviations add to their mean A_T."""
    seeds, methods = len(right), len(right[0])
    total = [[0.0] * methods for _ in range(methods)]
    for image in sorted({i for rows in images for i in rows}):
        added = [0.0] * methods
        for s in range(seeds):
            for position, i in enumerate(images[s]):
                if i != image:
                    continue
                task = tasks[s][position]
                alike = [p for p, t in enumerate(tasks[s]) if t == task]
                weight = 1 / (seeds * len(set(tasks[s])) * len(alike))
                for m in range(methods):
                    mean = sum(right[s][m][p] for p in alike) / len(alike)
                    added[m] += weight * (right[s][m][position] - mean)
        for a in range(methods):
            for b in range(methods):
                total[a][b] += added[a] * added[b]
    return total
