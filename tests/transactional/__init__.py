"""Stores with transactions: what they have in common."""
