"""What must be true of a history. Each model says it of one promise, and returns the first find that breaks it.

A model knows intervals, never points: what a process notes lies between the true moment and the one after it. So it
only counts what is sure: a task is inside from the first line of its body to the last.
"""
