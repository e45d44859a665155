"""Does half precision, or torch.compile, make a training step of the byte-level decoder faster on this CPU?

    python measure.py precision.csv

One thread, default text recipe (batch 8, context 64, 2 layers), H = D / 16; the arrangements take turns within one
process, ROUNDS times STEPS steps each.
"""

import csv
import sys
import time

import torch

from archopt.allocation import HeadAllocation
from archopt.models.transformer import ByteDecoder, next_byte_loss

ROUNDS, STEPS = 7, 5
BATCH, CONTEXT, N_LAYERS = 8, 64, 2


def stepper(width: int, arrangement: str):
    model = ByteDecoder(
        HeadAllocation(width // 16, 16),
        n_layers=N_LAYERS,
        context_length=CONTEXT,
        weighting="uniform",
        attention_kernel="auto",
        generator=torch.Generator().manual_seed(0),
    )
    optimiser = torch.optim.AdamW(model.parameters(), lr=1e-3, fused=True)
    tokens = torch.randint(256, (BATCH, CONTEXT + 1), generator=torch.Generator().manual_seed(1))
    run = torch.compile(model) if arrangement == "compile" else model

    def step() -> None:
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=arrangement == "bfloat16"):
            logits = run(tokens[:, :-1])
        loss = next_byte_loss(logits.float(), tokens[:, 1:])
        optimiser.zero_grad(set_to_none=True)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimiser.step()

    return step


def main(path: str) -> None:
    torch.set_num_threads(1)
    with open(path, "w", newline="", encoding="utf-8") as stream:
        writer = csv.writer(stream)
        writer.writerow(["d_model", "arrangement", "round", "first_step_seconds", "seconds_per_step"])
        for width in (64, 128, 256, 512):
            steps, first = {}, {}
            for arrangement in ("float32", "bfloat16", "compile"):
                steps[arrangement] = stepper(width, arrangement)
                begun = time.perf_counter()
                steps[arrangement]()
                first[arrangement] = time.perf_counter() - begun
            for number in range(ROUNDS):
                for arrangement, step in steps.items():
                    begun = time.perf_counter()
                    for _ in range(STEPS):
                        step()
                    seconds = (time.perf_counter() - begun) / STEPS
                    writer.writerow([width, arrangement, number, f"{first[arrangement]:.3f}", f"{seconds:.6f}"])
            stream.flush()


if __name__ == "__main__":
    main(sys.argv[1])
