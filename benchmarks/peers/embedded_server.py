"""The embedded cluster as a measured process: starts as its arguments say, reports, and ends with its stdin.

It imports nothing of the benchmark before the cluster has answered, so that a start is the cluster's alone.
"""

import asyncio
import json
import resource
import sys
import time


def report(mark: str, **facts: object) -> None:
    """One JSON line."""
    usage = resource.getrusage(resource.RUSAGE_SELF)
    with open("/proc/self/statm", encoding="ascii") as statm:
        rss = int(statm.read().split()[1]) * resource.getpagesize()
    line = {"mark": mark, "cpu": usage.ru_utime + usage.ru_stime, "rss": rss, "wall": time.time(), **facts}
    sys.stdout.write(json.dumps(line) + "\n")
    sys.stdout.flush()


async def first_answers(count: int) -> None:
    """Start an in-process cluster and ask it one thing, so many times in one process."""
    from steersman.k8s import Namespace
    from steersman_cluster.cluster import DevCluster, Options

    report("imported")
    for number in range(count):
        started, cpu = time.perf_counter(), time.process_time()
        options = Options(listen=False, controllers=False, nodes=0)
        async with DevCluster.start(options) as cluster, cluster.client() as client:
            await client.get(Namespace, "default")
            wall, used = time.perf_counter() - started, time.process_time() - cpu
            report(f"answered-{number}", wall_s=wall, cpu_s=used)


async def serve(options: dict[str, object]) -> None:
    """A cluster that listens, until stdin ends."""
    from steersman_cluster.cluster import DevCluster, Options

    capacity = {"cpu": "64", "memory": "256Gi", "pods": "10000"}
    async with DevCluster.start(Options(capacity=capacity, **options)) as cluster:  # type: ignore[arg-type]
        report("ready", url=cluster.url, kubeconfig=str(cluster.kubeconfig))
        await asyncio.get_running_loop().run_in_executor(None, obey)


def obey() -> None:
    for line in sys.stdin:
        verb, _, name = line.strip().partition(" ")
        if verb == "settle":
            import ctypes
            import gc

            gc.collect()
            ctypes.CDLL(None).malloc_trim(0)
        report(name)


if __name__ == "__main__":
    asked = json.loads(sys.argv[1])
    if "starts" in asked:
        asyncio.run(first_answers(asked["starts"]))
    else:
        asyncio.run(serve(asked))
