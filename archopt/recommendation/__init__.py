"""Which configuration to use, how sure that is, and what cannot be told apart from it."""

from archopt.recommendation.decide import recommend_from
from archopt.recommendation.result import AllocationEstimate, ConfigurationEstimate, Recommendation
from archopt.recommendation.study import recommend

__all__ = ["AllocationEstimate", "ConfigurationEstimate", "Recommendation", "recommend", "recommend_from"]
