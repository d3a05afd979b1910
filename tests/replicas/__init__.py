"""Locks that count only once replicas acknowledged them."""
