"""Long files first: with two workers the last ones to finish are then short."""

import pytest


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Sort files with slow tests to the front; within a file and among files the order stays."""
    slow = {item.path for item in items if item.get_closest_marker("slow")}
    items.sort(key=lambda item: item.path not in slow)
