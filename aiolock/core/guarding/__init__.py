"""Blocks that a loss cancels."""
