"""The multi-head Nadaraya-Watson model as scikit-learn estimators: what `archopt.search` trains."""

from archopt.sklearn.estimators import MultiHeadNWClassifier, MultiHeadNWRegressor

__all__ = ["MultiHeadNWClassifier", "MultiHeadNWRegressor"]
