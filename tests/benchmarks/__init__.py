"""The benchmarks report correctly, and counts that must not grow do not grow."""
