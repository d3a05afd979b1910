"""Small scenes, exhausted: each fault at each step, each pair of faults, and each small delay.

Chance finds what happens often. Here nothing is left to it: in a scene of two processes and one to three tasks, a
latency is always the same, what falls together keeps its order, and each delivery, each connection and each callback
of a loop is a step that has a number. So a fault at every step is a list, and a list has an end.

Two judges look at each run: the models, and the same scene without faults. After a fault that ends no lock by itself,
all work ends as it does without it, and soon after: what is late by more than a moment was healed by nothing but the
end of a ttl.
"""
