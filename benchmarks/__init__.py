"""Speed, measured as ratios against peers within one run: `python -m benchmarks --help`."""
