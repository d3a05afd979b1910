"""What aiolock costs, beside the cheapest lock there is and beside its peers: `python -m benchmarks --help`."""
