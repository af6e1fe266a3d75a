"""Measure speed as ratios of two times from the same run; `python -m benchmarks.run` runs all benchmarks."""
