"""Try spoilt inputs: each is read, or refused in one line of ours; the same inputs in every run."""

import copy
import random
import resource
from contextlib import contextmanager
from pathlib import Path

from pipeline.errors import RefereeError


@contextmanager
def only_our_errors(names, *, lines=False):
    """Let an input pass, or fail in one line of ours that names the file; ``lines``: one line for each mistake."""
    try:
        yield
    except RefereeError as error:
        text = str(error)
        assert names in text, text
        assert lines or "\n" not in text, text


@contextmanager
def little_memory(more=3 * 2**30):
    """Allow the process no more than ``more`` bytes beyond what it has: an absurd allocation is then an error."""
    has = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    before = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (has + more, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, before)


def try_inputs(name, attempt, count, seed):
    """Make ``count`` attempts; a failure names the number of the attempt."""
    with little_memory():
        for number in range(count):
            try:
                attempt(random.Random(f"{name}-{seed}-{number}"))
            except Exception as error:
                error.add_note(f"attempt {number} of {name}, seed {seed}")
                raise


def spoil_bytes(content, chosen, others=()):
    """Cut, flip, overwrite, remove, repeat, or splice with another content; never empty."""
    spoilt = bytearray(content)
    for _ in range(chosen.randint(1, 3)):
        at, length = chosen.randrange(len(spoilt)), chosen.randint(1, 40)
        action = chosen.randrange(6 if others else 5)
        if action == 0:
            del spoilt[max(1, at) :]
        elif action == 1:
            spoilt[at] ^= 1 << chosen.randrange(8)
        elif action == 2:
            spoilt[at : at + 8] = chosen.randbytes(chosen.randint(1, 8))
        elif action == 3:
            del spoilt[at : at + length]
        elif action == 4:
            spoilt[at:at] = spoilt[at : at + length]
        else:
            other = chosen.choice(others)
            spoilt[at:] = other[chosen.randrange(len(other)) :]
        if not spoilt:
            return b"x"
    return bytes(spoilt)


def spoil_text(text, chosen, fragments):
    """Replace a piece by a fragment or by random characters, or spoil the bytes."""
    if chosen.random() < 0.3:
        return spoil_bytes(text.encode(), chosen)
    at = chosen.randint(0, len(text))
    noise = "".join(chr(chosen.choice((10, 44, 0xD800, chosen.randrange(0x300)))) for _ in range(5))
    new = chosen.choice([*fragments, noise])
    spoilt = text[:at] + new + text[at + chosen.randint(0, 40) :]
    return spoilt.encode("utf-8", "surrogatepass")


def spoil_tree(tree, chosen, values):
    """Replace, remove or add one to three values anywhere in nested mappings and lists."""
    tree = copy.deepcopy(tree)
    for _ in range(chosen.randint(1, 3)):
        holders = list(_holders(tree))
        if not holders:
            break
        holder = chosen.choice(holders)
        key = chosen.choice(list(holder) if isinstance(holder, dict) else range(len(holder)))
        action = chosen.randrange(4)
        if action == 0:
            del holder[key]
        elif action == 1 and isinstance(holder, dict):
            holder[str(chosen.choice(values))[:20]] = copy.deepcopy(chosen.choice(values))
        else:
            holder[key] = copy.deepcopy(chosen.choice(values))
    return tree


def _holders(tree):
    """Yield every mapping and list that is not empty."""
    if isinstance(tree, dict | list) and tree:
        yield tree
        for value in tree.values() if isinstance(tree, dict) else tree:
            yield from _holders(value)
