"""Are a replicate's losses the same bits however many are trained with it? Replicate 0, 40 steps, float32.

python bits.py FILE.csv: whether they equal those of R = 8, at R = 1, 2 and 4, and of archopt's own training.
"""

import csv
import sys

import torch
from cells import SHAPES
from trainers import Alone, Together

N_STEPS = 40


def losses_of(trainer):
    return [trainer.step(step)[0] for step in range(N_STEPS)]


def main():
    torch.set_num_threads(1)
    with open(sys.argv[1], "w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(["shape", "R=1", "R=2", "R=4", "alone", "largest_relative_difference"])
        for shape in (shape for shape in SHAPES if shape.n_heads < 48):
            by_size = {r: losses_of(Together(shape, range(r), "hand")) for r in (1, 2, 4, 8)}
            others = [by_size[1], by_size[2], by_size[4], losses_of(Alone(shape, 0))]
            reference = by_size[8]
            largest = max(abs(a - b) / b for other in others for a, b in zip(other, reference, strict=True))
            row = [shape, *(other == reference for other in others), f"{largest:.2g}"]
            writer.writerow(row)
            print(*row, flush=True)


if __name__ == "__main__":
    main()
