"""The lock inside the environments in which people use it: task groups, timeouts, web frameworks."""
