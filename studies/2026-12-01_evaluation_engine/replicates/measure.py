"""Replicate-steps per second of every arrangement, interleaved.

python measure.py FILE.csv [--shapes digits-1 ...] [--repetitions 16]: appends one row a measurement. Five processes
stay alive: two pairs with one thread each, and one with two threads. In one pair and in the process of two threads
glibc keeps freed memory ("kept"); in the other pair it gives large blocks back to the system, its default ("default").
"""

import argparse
import csv
import multiprocessing
import os
import random
import time
import warnings
from collections import namedtuple
from pathlib import Path

KEPT = {"MALLOC_MMAP_THRESHOLD_": str(2**30), "MALLOC_TRIM_THRESHOLD_": str(2**32), "MALLOC_TOP_PAD_": str(2**26)}
SECONDS = 0.12  # of one measurement, about: short, since the speed of the cores themselves wanders
MIN_STEPS = 2

# malloc: see above; how: "sequence", "vmap" or "hand"; n_replicates: trained together in each process
Arrangement = namedtuple("Arrangement", "malloc processes threads how n_replicates")
Timing = namedtuple("Timing", "start end cpu_seconds machine_seconds")

ARRANGEMENTS = (
    [Arrangement("default", n, 1, "sequence", 1) for n in (1, 2)]
    + [Arrangement("default", 2, 1, "hand", r) for r in (2, 4, 8)]
    + [Arrangement("kept", n, t, "sequence", 1) for n, t in ((1, 1), (2, 1), (1, 2))]
    + [Arrangement("kept", 1, 1, "hand", 1)]
    + [Arrangement("kept", n, t, "hand", r) for n, t in ((1, 1), (2, 1), (1, 2)) for r in (2, 4, 8)]
    + [Arrangement("kept", 1, 1, "vmap", r) for r in (2, 4, 8)]
    + [Arrangement("kept", n, t, "vmap", 8) for n, t in ((2, 1), (1, 2))]
)


def machine_busy_seconds():
    """CPU time of all processes of the machine so far."""
    user, nice, system, _, _, irq, softirq = (int(word) for word in Path("/proc/stat").read_text().split()[1:8])
    return (user + nice + system + irq + softirq) / os.sysconf("SC_CLK_TCK")


def serve(connection, n_threads, barrier):
    import torch

    torch.set_num_threads(n_threads)
    warnings.filterwarnings("ignore", message="There is a performance drop")  # vmap has no rule for fused attention
    from trainers import Alone, Together

    trained = {}  # one trainer of the present shape a kind, and its next step
    while (job := connection.recv()) is not None:
        shape, how, n_replicates, n_steps, together = job
        trained = {key: value for key, value in trained.items() if key[0] == shape}
        trainer, step = trained.get((shape, how, n_replicates), (None, 0))
        if trainer is None or step + 1 + n_steps > trainer.recipe.n_steps:  # trial after trial, as a worker does
            trainer, step = Alone(shape, 0) if how == "sequence" else Together(shape, range(n_replicates), how), 0
            trainer.step(0)
            step = 1
        trainer.step(step)
        if together:
            barrier.wait()
        start, cpu, machine = time.perf_counter(), time.process_time(), machine_busy_seconds()
        for each in range(step + 1, step + 1 + n_steps):
            trainer.step(each)
        end, cpu, machine = time.perf_counter(), time.process_time() - cpu, machine_busy_seconds() - machine
        trained[shape, how, n_replicates] = trainer, step + 1 + n_steps
        connection.send(Timing(start, end, cpu, machine))


def start_processes():
    """Connections to the processes, by malloc and threads, and barriers, which must outlive their start."""
    context = multiprocessing.get_context("spawn")
    connections, barriers = {}, []
    for malloc, threads, n in (("default", 1, 2), ("kept", 1, 2), ("kept", 2, 1)):
        settings = {"OMP_NUM_THREADS": str(threads), "MKL_NUM_THREADS": str(threads)}
        settings |= KEPT if malloc == "kept" else {}
        os.environ.update(settings)
        barriers.append(context.Barrier(n))
        connections[malloc, threads] = []
        for _ in range(n):
            ours, theirs = context.Pipe()
            context.Process(target=serve, args=(theirs, threads, barriers[-1]), daemon=True).start()
            connections[malloc, threads].append(ours)
        for name in settings:
            del os.environ[name]
    return connections, barriers


def measure(connections, shape, arrangement, n_steps):
    """Replicate-steps per second of the machine, the processes' CPU seconds per second, that of all others."""
    used = connections[arrangement.malloc, arrangement.threads][: arrangement.processes]
    for each in used:
        each.send((shape, arrangement.how, arrangement.n_replicates, n_steps, arrangement.processes == 2))
    timings = [each.recv() for each in used]
    seconds = max(each.end for each in timings) - min(each.start for each in timings)
    n_replicate_steps = n_steps * arrangement.n_replicates * arrangement.processes
    own = sum(each.cpu_seconds for each in timings)
    others = max(each.machine_seconds for each in timings) - own
    return n_replicate_steps / seconds, own / seconds, max(0.0, others) / seconds


def main():
    from cells import SHAPES

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("file", type=Path)
    parser.add_argument("--shapes", nargs="+", default=[str(shape) for shape in SHAPES])
    parser.add_argument("--repetitions", type=int, default=16)
    parser.add_argument("--first", type=int, default=0, help="number of the first repetition, to add to a file")
    options = parser.parse_args()
    connections, _barriers = start_processes()
    new = not options.file.exists()
    order = random.Random(options.first)
    with open(options.file, "a", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        if new:
            writer.writerow(
                ["shape", "repetition", *Arrangement._fields, "n_steps", "rate", "own_cores", "other_cores"]
            )
        for shape in (shape for shape in SHAPES if str(shape) in options.shapes):
            alone = Arrangement("default", 2, 1, "sequence", 1)
            per_step = 2 / max(measure(connections, shape, alone, 20)[0] for _ in range(3))
            begun = time.monotonic()
            for repetition in range(options.first, options.first + options.repetitions):
                for arrangement in order.sample(ARRANGEMENTS, len(ARRANGEMENTS)):
                    n_steps = max(MIN_STEPS, round(SECONDS / per_step / arrangement.n_replicates))
                    found = measure(connections, shape, arrangement, n_steps)
                    numbers = (f"{number:.4g}" for number in found)
                    writer.writerow([shape, repetition, *arrangement, n_steps, *numbers])
                file.flush()
            print(f"{shape}: {1e3 * per_step:.2f} ms a step, {time.monotonic() - begun:.0f} s", flush=True)
    for each in (one for several in connections.values() for one in several):
        each.send(None)


if __name__ == "__main__":
    main()
