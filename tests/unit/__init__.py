"""The core on the memory backend: virtual time, no sleeping."""
