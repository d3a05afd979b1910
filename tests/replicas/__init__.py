"""Locks that count only once replicas have acknowledged them."""
