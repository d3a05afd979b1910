"""What aiolock costs, beside the cheapest possible lock and beside other libraries: `python -m benchmarks --help`."""
