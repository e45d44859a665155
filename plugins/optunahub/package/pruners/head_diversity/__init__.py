from archopt import HDIPruner, diversity_worth, record_diversity, report_diversity

__all__ = ["HDIPruner", "diversity_worth", "record_diversity", "report_diversity"]
