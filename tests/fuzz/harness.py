"""Try corrupted inputs, the same in every run: each is read, or refused with a one-line error."""

import copy
import random
import resource
from contextlib import contextmanager
from pathlib import Path

from pipeline.errors import RefereeError


@contextmanager
def only_our_errors(name, *, multiline=False):
    """Allow only a `RefereeError` that contains ``name``, of one line unless ``multiline``."""
    try:
        yield
    except RefereeError as error:
        text = str(error)
        assert name in text, text
        assert multiline or "\n" not in text, text


@contextmanager
def limited_memory(extra=3 * 2**30):
    """Limit the process to ``extra`` more bytes of memory, so that an absurd allocation is an error."""
    current = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    limits = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (current + extra, limits[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, limits)


def try_inputs(name, attempt, count, seed):
    """Make ``count`` attempts; a failure gives the number of the attempt."""
    with limited_memory():
        for number in range(count):
            try:
                attempt(random.Random(f"{name}-{seed}-{number}"))
            except Exception as error:
                error.add_note(f"attempt {number} of {name}, seed {seed}")
                raise


def corrupt_bytes(content, rng, others=()):
    """Truncate, flip, overwrite, remove, repeat, or splice with other content; never return an empty result."""
    result = bytearray(content)
    for _ in range(rng.randint(1, 3)):
        start, length = rng.randrange(len(result)), rng.randint(1, 40)
        action = rng.randrange(6 if others else 5)
        if action == 0:
            del result[max(1, start) :]
        elif action == 1:
            result[start] ^= 1 << rng.randrange(8)
        elif action == 2:
            result[start : start + 8] = rng.randbytes(rng.randint(1, 8))
        elif action == 3:
            del result[start : start + length]
        elif action == 4:
            result[start:start] = result[start : start + length]
        else:
            other = rng.choice(others)
            result[start:] = other[rng.randrange(len(other)) :]
        if not result:
            return b"x"
    return bytes(result)


def corrupt_text(text, rng, fragments):
    """Replace a piece by a fragment or by random characters, or corrupt the bytes."""
    if rng.random() < 0.3:
        return corrupt_bytes(text.encode(), rng)
    start = rng.randint(0, len(text))
    noise = "".join(chr(rng.choice((10, 44, 0xD800, rng.randrange(0x300)))) for _ in range(5))
    replacement = rng.choice([*fragments, noise])
    result = text[:start] + replacement + text[start + rng.randint(0, 40) :]
    return result.encode("utf-8", "surrogatepass")


def corrupt_tree(tree, rng, values):
    """Replace, remove or add one to three values anywhere in nested mappings and lists."""
    tree = copy.deepcopy(tree)
    for _ in range(rng.randint(1, 3)):
        parents = list(_containers(tree))
        if not parents:
            break
        parent = rng.choice(parents)
        key = rng.choice(list(parent) if isinstance(parent, dict) else range(len(parent)))
        action = rng.randrange(4)
        if action == 0:
            del parent[key]
        elif action == 1 and isinstance(parent, dict):
            parent[str(rng.choice(values))[:20]] = copy.deepcopy(rng.choice(values))
        else:
            parent[key] = copy.deepcopy(rng.choice(values))
    return tree


def _containers(tree):
    """Yield every non-empty mapping and list."""
    if isinstance(tree, dict | list) and tree:
        yield tree
        for value in tree.values() if isinstance(tree, dict) else tree:
            yield from _containers(value)
