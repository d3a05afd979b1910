"""Whole managers of several processes and their server, in one thread, under one virtual clock and one scheduler.

A seed draws a plan: what tasks do with which locks, how the network behaves, and which faults come when. The same seed
decides how long each byte takes and each loop sleeps, so a run replays exactly. Models check the history while it
grows. A plan that fails is made smaller until nothing more can be left out.

What runs for real: everything in `aiolock` from the manager down to the transport: the core, `RedisBackend` with its
session, outbox, handshake, heartbeat and reconnects, and hiredis for what it reads. Each process has an event loop of
its own, which keeps asyncio's order of callbacks; drawn is the order between processes, between connections, and of
timers for one moment.

What does not: sockets, TLS, and redis-py's way of opening a connection. The server runs the scripts, but has only the
commands that they and the library send. Topologies of more than one server are not simulated. All that belongs to tests
with real servers.
"""
