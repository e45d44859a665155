"""Default estimators against scikit-learn's defaults: 5-fold cross-validation, three shuffles of the folds.

Writes scores.csv beside this file, one row a fold: data, model, shuffle, fold, score (R^2 or accuracy), seconds (fit).
"""

from pathlib import Path

import pandas as pd
from sklearn.datasets import load_breast_cancer, load_diabetes, load_digits, load_wine, make_friedman1
from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor
from sklearn.kernel_ridge import KernelRidge
from sklearn.linear_model import LogisticRegression, RidgeCV
from sklearn.model_selection import KFold, StratifiedKFold, cross_validate
from sklearn.neighbors import KNeighborsClassifier, KNeighborsRegressor
from sklearn.neural_network import MLPClassifier, MLPRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC, SVR

from archopt.sklearn import MultiHeadNWClassifier, MultiHeadNWRegressor

REGRESSORS = {
    "MultiHeadNW": MultiHeadNWRegressor(random_state=0),
    "MultiHeadNW, 1 head": MultiHeadNWRegressor(n_heads=1, random_state=0),
    "KNeighbors": KNeighborsRegressor(),
    "KernelRidge, rbf": KernelRidge(kernel="rbf"),
    "SVR": SVR(),
    "MLP": MLPRegressor(random_state=0, max_iter=2000),
    "RidgeCV": RidgeCV(),
    "RandomForest": RandomForestRegressor(random_state=0),
}
CLASSIFIERS = {
    "MultiHeadNW": MultiHeadNWClassifier(random_state=0),
    "MultiHeadNW, 1 head": MultiHeadNWClassifier(n_heads=1, random_state=0),
    "KNeighbors": KNeighborsClassifier(),
    "SVC": SVC(),
    "MLP": MLPClassifier(random_state=0, max_iter=2000),
    "LogisticRegression": LogisticRegression(max_iter=1000),
    "RandomForest": RandomForestClassifier(random_state=0),
}
TABLES = {
    "diabetes": (REGRESSORS, KFold, load_diabetes(return_X_y=True)),
    "friedman1, n 2,500, noise 1": (REGRESSORS, KFold, make_friedman1(2500, noise=1.0, random_state=0)),
    "digits": (CLASSIFIERS, StratifiedKFold, load_digits(return_X_y=True)),
    "wine": (CLASSIFIERS, StratifiedKFold, load_wine(return_X_y=True)),
    "breast_cancer": (CLASSIFIERS, StratifiedKFold, load_breast_cancer(return_X_y=True)),
}

rows = []
for data, (models, folds, (inputs, targets)) in TABLES.items():
    for name, model in models.items():
        for shuffle in range(3):
            cv = folds(5, shuffle=True, random_state=shuffle)
            found = cross_validate(make_pipeline(StandardScaler(), model), inputs, targets, cv=cv)
            rows += [
                (data, name, shuffle, fold, score, seconds)
                for fold, (score, seconds) in enumerate(zip(found["test_score"], found["fit_time"], strict=True))
            ]
frame = pd.DataFrame(rows, columns=["data", "model", "shuffle", "fold", "score", "seconds"])
frame.to_csv(Path(__file__).parent / "scores.csv", index=False, float_format="%.6g")
table = frame.groupby(["data", "model"], sort=False)[["score", "seconds"]].mean()
print(table.round({"score": 3, "seconds": 2}).to_string())
