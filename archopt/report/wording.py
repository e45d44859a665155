"""The sentences that the terminal and the HTML report share: what to use, how sure, and on what that rests."""

from collections.abc import Mapping, Sequence
from typing import Any

from archopt.report.numbers import MISSING, count, duration, finite, printable, probability, short, whole

Recommendation = Mapping[str, Any]  # the schema of recommendation.json
TrialRow = Mapping[str, Any]

LAWS = {
    "log": "log law, head_dim = c (log n)^(2/(4+d))",
    "power": "power law, head_dim = c n^(2/(4+d))",
    "bound": "minimiser of the bias-variance bound",
}


def allocation_of(entry: Mapping[str, Any] | None) -> tuple[int, int] | None:
    """(n_heads, head_dim) of anything that carries them, flat or under "allocation"; None where it carries none."""
    if not entry:
        return None
    inner = entry.get("allocation")
    holder = inner if isinstance(inner, Mapping) else entry
    n_heads, head_dim = whole(holder.get("n_heads")), whole(holder.get("head_dim"))
    return None if n_heads is None or head_dim is None else (n_heads, head_dim)


def in_words(allocation: tuple[int, int]) -> str:
    """ "4 heads x 12"."""
    return f"{count(allocation[0], 'head')} x {allocation[1]}"


def metric_name(recommendation: Recommendation) -> str:
    """As the search calls it; what somebody else's study measures is a loss where it is minimised."""
    usual = "value" if recommendation.get("direction") == "maximize" else "loss"
    return printable(recommendation.get("metric") or usual, most=24)


def headline(recommendation: Recommendation) -> str:
    """ "Use 4 heads x 12 (d_model 48), weighting uniform"; no weighting where the study has none."""
    allocation = allocation_of(recommendation.get("allocation"))
    if allocation is None:
        return "No recommendation: no trial has finished"
    scheme = None if allocation[0] == 1 else recommendation.get("weighting")
    weighting = "" if scheme is None else f", weighting {printable(scheme)}"
    return f"Use {in_words(allocation)} (d_model {allocation[0] * allocation[1]}){weighting}"


def ties(recommendation: Recommendation) -> list[tuple[int, int]]:
    """The distinct allocations of the confidence set other than the recommended one, most probable first."""
    chosen = allocation_of(recommendation.get("allocation"))
    entries = [entry for entry in recommendation.get("allocations") or () if entry.get("in_confidence_set")]
    entries.sort(key=lambda entry: -(finite(entry.get("p_best")) or 0.0))
    entries += list(recommendation.get("confidence_set") or ())
    found = [allocation for allocation in map(allocation_of, entries) if allocation and allocation != chosen]
    return list(dict.fromkeys(found))


def certainty(recommendation: Recommendation) -> str:
    """How sure: the probability that the recommended allocation is best."""
    if allocation_of(recommendation.get("allocation")) is None:
        return ""
    p_best = probability(recommendation.get("p_best"))
    if p_best == MISSING:
        return "The probability that no other allowed allocation is better is not known."
    sentence = f"Probability that no other allowed allocation is better: {p_best}."
    entries: Sequence[Mapping[str, Any]] = recommendation.get("allocations") or ()
    likelier = max(entries, key=lambda row: finite(row.get("p_best")) or 0.0, default={})
    ahead = allocation_of(likelier)
    if ahead is not None and ahead != allocation_of(recommendation.get("allocation")):
        # chosen by expected value among those that ran, and among ties by cost: the likeliest may be another
        why = (
            "its expected value is no better, or by no more than a tie" if likelier.get("n_trials") else "it never ran"
        )
        sentence += f" {in_words(ahead)} is likelier ({probability(likelier.get('p_best'))}), but {why}."
    return sentence


def tie_sentence(recommendation: Recommendation) -> str:
    """Which allocations cannot be told apart from the recommended one."""
    if allocation_of(recommendation.get("allocation")) is None:
        return ""
    confidence = finite(recommendation.get("confidence"))
    level = f"{100 * confidence:.0f} % " if confidence is not None else ""
    others = ties(recommendation)
    if not others:
        return f"No other allocation is in the {level}confidence set."
    return f"Cannot be told apart from it ({level}confidence set): {', '.join(map(in_words, others))}."


def theory_sentence(recommendation: Recommendation) -> str:
    """What the closed form had suggested, with its constant and its range; empty where it was not asked."""
    theory = recommendation.get("theory") or {}
    head_dim = finite(theory.get("head_dim"))
    if head_dim is None:
        return ""
    law = str(theory.get("law") or "log")
    assumed = [LAWS.get(law, printable(law))]
    if finite(theory.get("constant")) is not None:
        assumed.append(f"c = {short(theory['constant'])}")
    if finite(theory.get("intrinsic_dim")) is not None:
        spread = [short(end) for end in theory.get("intrinsic_dim_range") or () if finite(end) is not None]
        between = f" ({spread[0]} to {spread[1]})" if len(spread) == 2 and spread[0] != spread[1] else ""
        assumed.append(f"intrinsic dimension d = {short(theory['intrinsic_dim'])}{between}")
    sentence = f"The closed form had suggested head_dim {short(head_dim)}"
    nearest = allocation_of(theory.get("nearest"))
    sentence += f", nearest {in_words(nearest)}" if nearest else ""
    ends = theory_range(recommendation)
    sentence += f"; one standard deviation either way is {short(ends[0])} to {short(ends[1])}" if ends else ""
    return f"{sentence} ({'; '.join(assumed)})."


def theory_range(recommendation: Recommendation) -> tuple[float, float] | None:
    """head_dim one standard deviation below and above the closed form, kept within 1 and d_model."""
    theory = recommendation.get("theory") or {}
    head_dim, octaves = finite(theory.get("head_dim")), finite(theory.get("sd_octaves"))
    if head_dim is None or octaves is None:
        return None
    width = d_model_of(recommendation)
    return max(1.0, head_dim * 2.0**-octaves), min(float(width) if width else float("inf"), head_dim * 2.0**octaves)


def law_sentence(recommendation: Recommendation) -> str:
    """What a law fitted to several sizes says of this one; empty where there is none."""
    law = recommendation.get("law") or {}
    head_dim = finite(law.get("head_dim"))
    ends = [short(end) for end in law.get("interval") or () if finite(end) is not None]
    if head_dim is None or len(ends) != 2:
        return ""
    level = finite(law.get("confidence"))
    interval = f"{100 * level:.0f} % interval" if level is not None else "interval"
    told = f"A law fitted to several sizes says head_dim {short(head_dim)}, {interval} {ends[0]} to {ends[1]}"
    return f"{told} ({printable(law['basis'])})." if law.get("basis") else f"{told}."


def seed_sentence(recommendation: Recommendation, rows: Sequence[TrialRow]) -> str:
    """Which seeds were used for what; empty where none is on record."""
    seed = whole((recommendation.get("settings") or {}).get("seed"))
    replicates = [number for row in rows if (number := whole(row.get("replicate"))) is not None]
    told = []
    if seed is not None:
        told.append(f"seed {seed} for the split, the initialisation, the batches and the proposals")
    if replicates:
        told.append(f"replicates {min(replicates)} to {max(replicates)} of it for repeated trials")
    fresh = max((whole(row.get("n")) or 0 for row in recommendation.get("comparison") or ()), default=0)
    if fresh and told:
        told.append(f"{count(fresh, 'fresh seed')} for the comparison")
    return f"Seeds: {', '.join(told)}." if seed is not None or max(replicates, default=0) > 0 else ""


def d_model_of(recommendation: Recommendation) -> int | None:
    """D, from whatever allocation the recommendation holds."""
    theory = recommendation.get("theory") or {}
    entries = [recommendation.get("allocation"), *(recommendation.get("allocations") or ()), theory.get("nearest")]
    found = [allocation for allocation in map(allocation_of, entries) if allocation]
    return found[0][0] * found[0][1] if found else None


def search_sentences(recommendation: Recommendation) -> list[str]:
    """Why the search stopped, and how many trials finished, were pruned, failed or were interrupted."""
    search = recommendation.get("search") or {}
    sentences = []
    if search.get("stopped_because"):
        sentences.append(f"Stopped: {printable(search['stopped_because']).rstrip('.')}.")
    counted = [
        f"{number:,} {state}"
        for state, key in (("finished", "complete"), ("pruned", "pruned"), ("failed", "failed"))
        if (number := whole(search.get(key))) is not None
    ]
    counted += [f"{number:,} interrupted" for number in [whole(search.get("n_interrupted"))] if number]
    running = whole(search.get("n_running"))
    if running:
        sentences.append(f"{count(running, 'trial')} had not ended when this was written.")
    wall = f" in {duration(search['wall_seconds'])}" if finite(search.get("wall_seconds")) is not None else ""
    if counted:
        sentences.append(f"Trials: {', '.join(counted)}{wall}.")
    return sentences


def data_sentence(recommendation: Recommendation) -> str:
    """Which data, and how much of it was used."""
    data = recommendation.get("data") or {}
    if not data.get("name"):
        return ""
    used, available = whole(data.get("n_samples")), whole(data.get("n_available"))
    unit = "training tokens" if data.get("kind") == "text" else "training rows"
    sentence = f"Data: {printable(data['name'], most=120)}"
    if used is not None:
        sentence += f", {used:,} {unit}"
        sentence += f" of {available:,} available" if available is not None and available > used else ""
    return f"{sentence}."


def lines_of(recommendation: Recommendation, key: str) -> list[str]:
    """The printable lines of a list of texts, or of one text, under ``key``."""
    value = recommendation.get(key) or ()
    entries: Sequence[object] = (value,) if isinstance(value, str) else value
    return [printable(entry, most=600) for entry in entries if str(entry).strip()]
