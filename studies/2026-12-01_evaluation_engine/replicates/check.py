"""Does training together give what training in sequence gives? Losses of 4 replicates over 50 steps.

python check.py FILE.csv; exit code 1 where they differ. In float64 the two must agree to 1e-9: a last bit of float32,
6e-8, grows to at most 1e-2 over the steps ("float32_last_bit"), hence one of float64, 1e-16, to about 2e-11; what is
computed differently shows far above. Gradients are clipped at every step there: at the usual limit of 1 that is rare,
and clipping would not be looked at.
"""

import csv
import sys
import warnings
from dataclasses import replace

import torch
from cells import SHAPES, Batches, learner_of
from forwards import Objective
from trainers import FORWARDS, Alone, Together

from archopt.evaluation import training

N_STEPS, N_REPLICATES = 50, 4
LIMIT = 1e-9
USUAL_NORM, ALWAYS_CLIPPED = training._MAX_GRADIENT_NORM, 0.01


def sequence(shape, dtype, jitter=0.0):
    """Losses (R, steps) of archopt's own step; ``jitter`` is the relative change of the initial parameters."""
    losses = []
    for replicate in range(N_REPLICATES):
        learner = learner_of(shape, replicate)
        if dtype is torch.float64:
            learner = in_double(learner, shape, replicate)
        if jitter:
            noise = torch.Generator().manual_seed(replicate)
            with torch.no_grad():
                for each in learner.model.parameters():
                    each.mul_(1 + jitter * (2 * torch.rand(each.shape, generator=noise) - 1))
        trainer = Alone(shape, replicate, learner)
        losses.append([trainer.step(step)[0] for step in range(N_STEPS)])
    return torch.tensor(losses, dtype=torch.float64)


def in_double(learner, shape, replicate):
    """archopt's model in float64; its learner holds the data in float32."""
    model = learner.model.double()
    batches = Batches(shape, [replicate], torch.float64)
    objective = Objective(model, 0.0)
    return replace(learner, loss=lambda step: objective(*(each[0] for each in batches.next()))[1])


def together(shape, dtype, how):
    trainer = Together(shape, range(N_REPLICATES), how, dtype)
    return torch.tensor([trainer.step(step) for step in range(N_STEPS)], dtype=torch.float64).T


def largest(first, second):
    """Largest relative difference of two losses of one replicate at one step."""
    return float(((first - second).abs() / first.abs()).max())


def main():
    torch.set_num_threads(1)
    warnings.filterwarnings("ignore", message="There is a performance drop")  # vmap has no rule for fused attention
    agree = True
    with open(sys.argv[1], "w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(["shape", "how", "float64", "float32", "float32_last_bit", "first_loss", "last_loss"])
        for shape in SHAPES:
            training._MAX_GRADIENT_NORM = ALWAYS_CLIPPED
            exact = sequence(shape, torch.float64)
            double = {how: largest(exact, together(shape, torch.float64, how)) for how in FORWARDS}
            training._MAX_GRADIENT_NORM = USUAL_NORM
            single = sequence(shape, torch.float32)
            last_bit = largest(single, sequence(shape, torch.float32, jitter=2.0**-24))
            for how in FORWARDS:
                float32 = largest(single, together(shape, torch.float32, how))
                ends = [f"{float(single[:, step].mean()):.4f}" for step in (0, -1)]
                differences = [f"{number:.2g}" for number in (double[how], float32, last_bit)]
                writer.writerow([shape, how, *differences, *ends])
                print(shape, how, *differences, *ends, flush=True)
                agree &= double[how] <= LIMIT
    sys.exit(0 if agree else 1)


if __name__ == "__main__":
    main()
