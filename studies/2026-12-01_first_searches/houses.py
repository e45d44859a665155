"""Write houses.csv: a made-up table of 3,000 sales with numbers, a category, dates and missing values.

The target is a smooth function of the inputs plus normal noise of standard deviation 25, so the floor is known:
no model can expect a test rmse below 25.
"""

import sys

import numpy as np
import pandas as pd

rng = np.random.default_rng(2026)
n = 3000
sold = rng.integers(0, 2000, n)
frame = pd.DataFrame(
    {
        "area": rng.uniform(20, 200, n).round(1),
        "rooms": rng.integers(1, 8, n),
        "age": rng.exponential(30, n).round(0),
        "town": rng.choice(["north", "south", "east", "west"], n),
        "sold": pd.Timestamp("2019-01-01") + pd.to_timedelta(sold, "D"),
    }
)
factor = frame["town"].map({"north": 1.0, "south": 1.4, "east": 0.8, "west": 1.1})
price = 2.1 * frame["area"] * factor * np.exp(-frame["age"] / 90) + 12 * np.sin(frame["rooms"]) + 0.02 * sold
frame["price"] = (price + rng.normal(0, 25, n)).round(1)
frame.loc[rng.random(n) < 0.05, "age"] = np.nan
frame.loc[rng.random(n) < 0.03, "town"] = np.nan
frame.to_csv(sys.argv[1], index=False)
