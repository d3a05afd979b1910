"""The lock inside what people run it in: task groups, timeouts, web frameworks."""
