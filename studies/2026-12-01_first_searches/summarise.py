"""Print the tables of this study's README from the recommendation.json files in it."""

import json
import sys
from pathlib import Path


def split(entry: dict[str, int]) -> str:
    return f"{entry['n_heads']} x {entry['head_dim']}"


def main(folder: Path) -> None:
    results = {path.parent.name: json.loads(path.read_text()) for path in sorted(folder.glob("*/recommendation.json"))}
    columns = (
        "data | n | D | recommended | P(best) | not told apart | closed form | trials (pruned) | search s | stopped"
    )
    print(f"| {columns} |")
    print("|---|---|---|---|---|---|---|---|---|---|")
    for name, found in results.items():
        search, chosen = found["search"], found["allocation"]
        ties = [split(row) for row in found["allocations"] if row["in_confidence_set"] and split(row) != split(chosen)]
        done = search["complete"] + search["pruned"] + search["failed"]
        print(
            f"| {name} | {found['data']['n_samples']:,} | {chosen['n_heads'] * chosen['head_dim']} "
            f"| {split(chosen)}, {found['weighting']} | {found['p_best']:.2f} | {', '.join(ties) or '-'} "
            f"| {split(found['theory']['nearest'])} (d_k {found['theory']['head_dim']:.1f}) "
            f"| {done} ({search['pruned'] / done:.0%}) | {search['wall_seconds']:.0f} "
            f"| {search['stopped_because'].split(':')[0]} |"
        )
    print("\n| data | what | heads x dim | test metric | difference from the recommendation | ms a step |")
    print("|---|---|---|---|---|---|")
    for name, found in results.items():
        for row in found["comparison"]:
            if row["test"] is None:
                continue
            own = row["label"].startswith("recommended")
            gap = "" if own or row["gain"] is None else f"{-row['gain']:+.4f} ± {row['gain_se'] or float('nan'):.4f}"
            print(
                f"| {name} | {row['label']} | {split(row['allocation'])} "
                f"| {found['metric']} {row['test']:.4f} ± {row['test_sd'] or float('nan'):.4f} | {gap} "
                f"| {1000 * row['seconds_per_step']:.2f} |"
            )


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else Path(__file__).parent))
