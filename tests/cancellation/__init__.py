"""A cancel, then a second one, at every await."""
