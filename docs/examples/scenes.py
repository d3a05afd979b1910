"""The scenes of the demo."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import math
import time
from collections.abc import Callable, Sequence

from load import Meter, Rush
from redis import Redis
from redis.exceptions import RedisError
from stage import Stage
from store import Store

from aiolock.testing.cluster import RedisCluster

SKUS, STOCK, BUYERS, AT_ONCE = 4, 125, 1250, 48
A_WHILE = 60.0  # a payment that outlasts the scene


async def without_lock(stage: Stage) -> None:
    """Many requests read, await and write at once: the same item is sold again and again."""
    report, store = stage.report, stage.store
    report.scene("Without the lock")
    skus = names("unlocked")
    await rush(stage, skus)
    report.saw("items sold", f"{store.sold(*skus)} of {SKUS * STOCK}")
    report.promised("oversold (the race is real)", store.oversold(*skus), store.oversold(*skus) > 0)


async def with_lock(stage: Stage) -> None:
    """The same load on the same handler, now with the lock: exactly the stock is sold."""
    report, store = stage.report, stage.store
    report.scene("With the lock")
    skus = names("locked")
    async with stage.client() as client:
        meter = Meter(client)
        await meter.start()
        async with asyncio.TaskGroup() as group:
            rushing = group.create_task(rush(stage, skus))
            await meter.watch(rushing)
        load = rushing.result()
        calls = await meter.calls()

    sold, entered = store.sold(*skus), sum(len(store.events("entered", sku)) for sku in skus)
    report.promised("items sold", f"{sold} of {SKUS * STOCK}", sold == SKUS * STOCK)
    report.promised("oversold", store.oversold(*skus), store.oversold(*skus) == 0)
    report.promised("requests that failed", dict(load.failures) or 0, not load.failures)
    report.saw("throughput", f"{BUYERS / load.seconds:.0f} requests/s, {BUYERS} in {load.seconds:.1f} s")
    report.saw("wait for the lock, p50 and p99", f"{1e3 * load.wait(0.5):.0f} ms, {1e3 * load.wait(0.99):.0f} ms")
    sent = {name: calls[name] for name in sorted(Meter.SENT) if calls[name]}
    listed = ", ".join(f"{name} {count}" for name, count in sent.items())
    report.saw("requests to Redis per acquisition", f"{sum(sent.values()) / max(entered, 1):.2f} ({listed})")
    report.saw("commands run by Redis, scripts included", calls.total())
    workers = len(stage.workers)
    report.promised("connections to Redis", f"{meter.connections} for {workers} workers", meter.connections == workers)


async def with_lock_elsewhere(stage: Stage) -> None:
    """The same load, with locks that no Redis keeps."""
    report, store = stage.report, stage.store
    report.scene("With the lock")
    skus = names("locked")
    load = await rush(stage, skus)
    sold = store.sold(*skus)
    report.promised("items sold", f"{sold} of {SKUS * STOCK}", sold == SKUS * STOCK)
    report.promised("oversold", store.oversold(*skus), store.oversold(*skus) == 0)
    report.promised("requests that failed", dict(load.failures) or 0, not load.failures)
    report.saw("throughput", f"{BUYERS / load.seconds:.0f} requests/s, {BUYERS} in {load.seconds:.1f} s")
    report.saw("wait for the lock, p50 and p99", f"{1e3 * load.wait(0.5):.0f} ms, {1e3 * load.wait(0.99):.0f} ms")


async def killed(stage: Stage) -> None:
    """SIGKILL inside the block: the lock frees itself after its ttl, and the next holder is told."""
    report, store, sku = stage.report, stage.store, "killed"
    report.scene("A worker is killed inside the block (SIGKILL)")
    store.add(sku, 2)
    first, second = stage.workers
    async with asyncio.TaskGroup() as group:
        lost = group.create_task(first.buy(sku, "first", payment=A_WHILE))
        await stage.happened("entered", sku, "first")
        served = group.create_task(second.buy(sku, "second"))
        await asyncio.sleep(0.3)
        report.step(f"{first.name} holds the lock, a buyer waits at {second.name}; kill -9 {first.name}")
        first.kill()
        at = time.monotonic()
        await stage.dismiss(first)
        replacement = group.create_task(stage.hire("worker-3"))
        after = (await stage.happened("entered", sku, "second")).at - at
        await replacement
    report.step(f"{second.name} acquired the lock after {after:.2f} s; a new worker replaced {first.name}")
    told = served.result().body.get("abandoned")
    report.saw("the killed worker's buyer got", lost.result().body["detail"])
    report.promised(f"the next buyer entered after (ttl {stage.ttl:g} s)", f"{after:.2f} s", after < stage.ttl + 1.0)
    report.promised("and was told the lock was abandoned", yes(told), bool(told))
    report.promised("items sold", f"{store.sold(sku)} of 2, none by the killed worker", store.sold(sku) == 1)


async def frozen(stage: Stage) -> None:
    """SIGSTOP past the ttl: another buyer gets in. After SIGCONT the block is cancelled; the fence stops its thread."""
    report, store, sku = stage.report, stage.store, "frozen"
    report.scene("A worker is frozen past its ttl (SIGSTOP, SIGCONT)")
    store.add(sku, 1)
    first, second = stage.workers
    async with asyncio.TaskGroup() as group:
        # The payment runs in a thread. Cancellation cannot reach it, so it will try to write, too late.
        late = group.create_task(first.buy(sku, "first", payment=stage.ttl + 2.0, path="buy_in_thread"))
        before = await stage.happened("entered", sku, "first")
        await asyncio.sleep(0.1)  # do not freeze it while it has SQLite's own write lock, which never expires
        first.freeze()
        report.step(f"{first.name} is frozen while it sells the last item")
        try:
            served = await second.buy(sku, "second")
            after = await stage.happened("entered", sku, "second")
            report.step(f"{second.name} acquired the lock and sold it; {first.name} resumes where it was")
        finally:
            thawed = time.monotonic()
            first.thaw()
        answer = await late
        report.step(f"{first.name} answered {answer.status}: {answer.body.get('detail')}")
    refused = await stage.happened("refused", sku, "first")
    reason = answer.body.get("reason")
    cancelled = answer.status == 503 and answer.at < refused.at
    report.saw(
        "another worker entered and sold the item", f"{yes(served.status == 200)}, {after.at - before.at:.2f} s later"
    )
    report.promised(
        "the frozen block was cancelled", f"{yes(cancelled)}, {answer.at - thawed:.3f} s after SIGCONT", cancelled
    )
    report.promised("the reason it was given", reason, reason == "loop_blocked")
    stale = (refused.fence or 0) < (after.fence or 0)
    report.promised("the fence refused its late write", f"{yes(stale)}, {refused.fence} < {after.fence}", stale)
    report.promised("items sold", f"{store.sold(sku)} of 1", store.sold(sku) == 1)


async def restarted(stage: Stage) -> None:
    """Redis loses everything: each holder is told and cancelled before it can write."""
    report, store = stage.report, stage.store
    report.scene("Redis restarts empty while four locks are held")
    skus = names("restarted")
    holders = dict(zip(skus, itertools.cycle(stage.workers), strict=False))
    for sku in skus:
        store.add(sku, 1)
    async with asyncio.TaskGroup() as group:
        first = {sku: group.create_task(worker.buy(sku, "first", payment=A_WHILE)) for sku, worker in holders.items()}
        for sku in skus:
            await stage.happened("entered", sku, "first")
        others = {sku: next(other for other in stage.workers if other is not holders[sku]) for sku in skus}
        then = {sku: group.create_task(worker.buy(sku, "second")) for sku, worker in others.items()}
        await asyncio.sleep(0.3)
        gone, back = await stage.restart_redis()
        report.step(f"four buyers hold locks, four wait; Redis was down for {back - gone:.2f} s and is empty")
        for sku in skus:
            lost = await stage.happened("lost", sku, "first")
            known = f"{lost.at - gone:.2f} s after Redis stopped, {max(0.0, lost.at - back):.2f} s after it was back"
            report.promised(f"{holders[sku].name} lost {sku}", f"{lost.detail}, {known}", lost.at - back < 1.0)
    told = [task.result().status for task in first.values()]
    entered = {sku: [event.fence or 0 for event in store.events("entered", sku)] for sku in skus}
    rising = all(fences == sorted(set(fences)) for fences in entered.values())
    sold = [task.result().status for task in then.values()]
    report.promised("the holders' buyers got", told, told == [503] * SKUS)
    report.promised("the waiting buyers got", sold, sold == [200] * SKUS)
    report.promised("fences kept rising", yes(rising), rising)
    report.promised("items sold", f"{store.sold(*skus)} of {SKUS}", store.sold(*skus) == SKUS)


async def master_killed(stage: Stage) -> None:
    """SIGKILL for a master of a cluster while the shop sells: its replica takes over, and sales go on."""
    report, store, cluster = stage.report, stage.store, stage.cluster
    report.scene("A master of the cluster is killed while the shop sells (SIGKILL)")
    skus = names("cluster", 2 * SKUS)
    victim = cluster.master_of(f"sku:{skus[0]}")
    hit = [sku for sku in skus if cluster.master_of(f"sku:{sku}") == victim]
    spared = [sku for sku in skus if sku not in hit]
    served: dict[Rush, int] = {}
    killed_at = 0.0

    def tick(load: Rush, so_far: int) -> None:
        nonlocal killed_at
        served[load] = so_far
        total, sold = sum(served.values()), sum(len(load.waits) for load in served)
        report.progress(total, 2 * BUYERS, f"buyers served, {sold} of {2 * SKUS * STOCK} items sold")
        if not killed_at and total >= BUYERS // 2:
            report.step(f"kill -9 for the master of {len(hit)} of {len(skus)} items")
            victim.kill()
            killed_at = time.monotonic()

    async with asyncio.TaskGroup() as group:
        # Buyers of their own for both: otherwise all of them soon wait for what the dead master had.
        loads = [group.create_task(rush(stage, part, tick)) for part in (hit, spared)]
    connections = clients_of(cluster)

    still, back = standstill(store, hit, killed_at)
    meanwhile = sum(back - still < event.at < back for sku in spared for event in store.events("entered", sku))
    rushes = [load.result() for load in loads]
    went_on(stage, skus, rushes, still, "for the dead master's items the shop stood still for")
    report.saw("meanwhile it sold of the others", meanwhile)
    report.saw("connections to the cluster", f"{connections} for {len(stage.workers)} workers")


async def leader_killed(stage: Stage) -> None:
    """SIGKILL for the leader of three etcd members while the shop sells: another one leads, and sales go on."""
    report = stage.report
    report.scene("The leader of the etcd cluster is killed while the shop sells (SIGKILL)")
    skus = names("leader")
    killed_at = 0.0

    def tick(load: Rush, so_far: int) -> None:
        nonlocal killed_at
        report.progress(so_far, BUYERS, f"buyers served, {len(load.waits)} of {SKUS * STOCK} items sold")
        if not killed_at and so_far >= BUYERS // 4:
            report.step("kill -9 for the leader")
            stage.etcd.kill_leader()
            killed_at = time.monotonic()

    load = await rush(stage, skus, tick)
    still, _ = standstill(stage.store, skus, killed_at)
    went_on(stage, skus, [load], still, "the shop stood still for")


def standstill(store: Store, skus: Sequence[str], since: float) -> tuple[float, float]:
    """Return for how long no buyer of these got in, at most, and when that was over."""
    after = sorted(event.at for sku in skus for event in store.events("entered", sku) if event.at > since)
    return max(((then - at, then) for at, then in itertools.pairwise([since, *after])), default=(math.inf, 0))


def went_on(stage: Stage, skus: Sequence[str], loads: Sequence[Rush], still: float, what: str) -> None:
    """Say what became of a shop whose server was killed."""
    report, store = stage.report, stage.store
    fences = [[event.fence or 0 for event in store.events("entered", sku)] for sku in skus]
    rising = all(each == sorted(set(each)) for each in fences)
    sold = store.sold(*skus)
    report.promised("items sold", f"{sold} of {len(skus) * STOCK}", sold == len(skus) * STOCK)
    report.promised("oversold", store.oversold(*skus), store.oversold(*skus) == 0)
    report.promised("fences kept rising", yes(rising), rising)
    report.promised(what, f"{still:.2f} s", still < 15.0)
    report.saw("buyers who were asked to try again", sum(load.failures.total() for load in loads))


async def rush(stage: Stage, skus: Sequence[str], tick: Callable[[Rush, int], None] | None = None) -> Rush:
    """Send many buyers at once to a fresh stock; `tick` gets the load and the number served so far."""
    for sku in skus:
        stage.store.add(sku, STOCK)
    load, stock, buyers = Rush(), len(skus) * STOCK, BUYERS * len(skus) // SKUS

    def show(served: int) -> None:
        if tick is not None:
            tick(load, served)
        else:
            stage.report.progress(served, buyers, f"buyers served, {len(load.waits)} of {stock} items sold")

    await load.run(stage.workers, skus, buyers=buyers, at_once=AT_ONCE, tick=show)
    return load


def clients_of(cluster: RedisCluster) -> int:
    """Return how many clients are connected to the servers that run, besides ours and their replicas."""
    found = 0
    for url in cluster.urls:
        with contextlib.suppress(RedisError), Redis.from_url(url) as client:
            found += len(client.client_list("normal")) + len(client.client_list("pubsub")) - 1
    return found


def names(prefix: str, count: int = SKUS) -> list[str]:
    """Return the skus of one scene."""
    return [f"{prefix}-{number}" for number in range(1, count + 1)]


def yes(value: object) -> str:
    """Return "yes" or "no", for the table."""
    return "yes" if value else "no"
