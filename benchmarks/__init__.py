"""Speed, as ratios of two things measured side by side in one run; `python -m benchmarks.run` runs them all."""
