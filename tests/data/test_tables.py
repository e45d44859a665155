import io

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from archopt.data import load_dataset
from archopt.errors import DataError, OptionError

invariant = settings(deadline=None, derandomize=True, max_examples=12)


def marked(n: int = 200) -> pd.DataFrame:
    """A table whose numeric columns let a test recover group and time of each encoded row."""
    rng = np.random.default_rng(1)
    group = rng.integers(0, 20, n)
    time = rng.permutation(n) // 3
    noise = rng.normal(size=n)
    return pd.DataFrame({"g": group, "g2": group, "t": time, "t2": time, "x": noise, "y": noise + rng.normal(size=n)})


def column(data, split, name):
    """A column of a split, one integer level per distinct value of the scaled inputs."""
    return np.round(getattr(data, split).inputs[:, data.feature_names.index(name)], 5)


def test_a_messy_table_becomes_finite_inputs_and_says_how(saved, frame):
    data = load_dataset(saved(frame), target="price")
    assert data.task == "regression"
    assert [len(data.train), len(data.valid), len(data.test)] == [240, 80, 80]
    for split in (data.train, data.valid, data.test):
        assert split.inputs.dtype == split.targets.dtype == np.float32
        assert split.inputs.shape[1] == data.n_features == len(data.feature_names)
        assert np.isfinite(split.inputs).all()
    assert data.train.targets.mean() == pytest.approx(0.0, abs=1e-5)
    assert data.train.targets.std() == pytest.approx(1.0, abs=1e-5)
    assert {"size", "size is missing", "garden", "sold: days", "city=Rome", "city=(missing)", "street=(other)"} <= set(
        data.feature_names
    )
    notes = "\n".join(data.notes)
    for said in (
        "task: regression",
        "split 60/20/20 at random",
        "240 / 80 / 80",
        "median, marked by a 0/1 column: 'size'",
        "most frequent value, marked by a 0/1 column: 'garden'",
        "'street': ",
        "grouped as (other)",
        "identifier): 'identifier'",
        "same value in every training row): 'constant'",
        "no value in any training row): 'nothing'",
        "'sold': dates read",
    ):
        assert said in notes
    assert all("\n" not in note for note in data.notes)


def test_targets_come_back_in_their_own_units(saved, frame):
    data = load_dataset(saved(frame), target="price")
    back = np.concatenate([s.targets for s in (data.train, data.valid, data.test)]) * data.target_scale
    assert np.sort(back + data.target_mean) == pytest.approx(np.sort(frame["price"]), rel=1e-4)


def test_classes_are_stratified_and_named(saved, frame):
    data = load_dataset(saved(frame), target="kind")
    assert data.class_names == ("flat", "house", "villa")
    assert (data.n_outputs, data.target_mean, data.target_scale) == (3, 0.0, 1.0)
    shares = frame["kind"].value_counts(normalize=True).sort_index().to_numpy()
    for split in (data.train, data.valid, data.test):
        assert split.targets.dtype == np.int64
        assert np.bincount(split.targets) / len(split) == pytest.approx(shares, abs=2 / len(split))


def test_the_same_content_and_seed_give_the_same_arrays(saved, frame):
    one, two = (load_dataset(saved(frame, name), target="kind", seed=3) for name in ("a.csv", "b.csv"))
    assert np.array_equal(one.train.inputs, two.train.inputs)
    assert one.content_hash == two.content_hash
    other = load_dataset(saved(frame), target="kind", seed=4)
    assert not np.array_equal(one.train.targets, other.train.targets)
    assert other.content_hash == one.content_hash


def test_the_hash_follows_content_and_target(saved, frame):
    path = saved(frame)
    changed = frame.copy()
    changed.loc[7, "size"] = 81.5
    hashes = [load_dataset(path, target=name).content_hash for name in ("price", "kind")]
    hashes.append(load_dataset(path, target="price", group_column="owner").content_hash)
    hashes.append(load_dataset(saved(changed, "changed.csv"), target="price").content_hash)
    assert len(set(hashes)) == 4


@invariant
@given(
    sizes=st.tuples(st.integers(10, 240), st.integers(10, 240)), seed=st.integers(0, 9), target=st.sampled_from("ky")
)
def test_training_sets_of_a_seed_are_nested_and_keep_every_class(tmp_path_factory, sizes, seed, target):
    rng = np.random.default_rng(0)
    table = pd.DataFrame({"x": rng.normal(size=400), "y": rng.normal(size=400), "k": rng.choice(list("abc"), 400)})
    path = tmp_path_factory.mktemp("nested") / "table.csv"
    table.to_csv(path, index=False)
    small, large = (load_dataset(str(path), target=target, n_samples=n, seed=seed) for n in sorted(sizes))
    assert (small.n_samples, small.n_available) == (min(sizes), 240)
    back = [data.train.targets * data.target_scale + data.target_mean for data in (small, large)]
    assert back[0] == pytest.approx(back[1][: len(back[0])], abs=1e-4)
    if target == "k":
        assert set(small.train.targets) == {0, 1, 2}
    assert len(small.test) == len(large.test)


@invariant
@given(seed=st.integers(0, 50))
def test_no_group_is_in_two_splits_and_the_group_is_no_input(tmp_path_factory, seed):
    path = tmp_path_factory.mktemp("groups") / "table.csv"
    marked().to_csv(path, index=False)
    data = load_dataset(str(path), target="y", group_column="g", seed=seed)
    assert "g" not in data.feature_names
    held = [set(column(data, split, "g2")) for split in ("train", "valid", "test")]
    assert sum(len(some) for some in held) == len(set.union(*held)) == 20


@invariant
@given(seed=st.integers(0, 50))
def test_no_training_row_is_later_than_a_row_that_checks_it(tmp_path_factory, seed):
    path = tmp_path_factory.mktemp("times") / "table.csv"
    marked().to_csv(path, index=False)
    data = load_dataset(str(path), target="y", time_column="t", seed=seed)
    assert "t" not in data.feature_names
    train, valid, test = (column(data, split, "t2") for split in ("train", "valid", "test"))
    assert train.max() < valid.min()
    assert valid.max() < test.min()
    assert any("equal times together" in note for note in data.notes)


def test_of_a_time_column_of_dates_only_the_cycles_are_inputs(saved, frame):
    names = load_dataset(saved(frame), target="price", time_column="sold").feature_names
    assert "sold: days" not in names
    assert "sold: hour (sin)" in names


def test_rows_that_do_not_train_leave_the_training_arrays_unchanged(saved, frame):
    """What is imputed, scaled, encoded, clipped or dropped must not depend on validation or test rows."""
    before = load_dataset(saved(frame), target="price", seed=5)
    # Recover the training rows through the target, which is distinct in every row.
    back = before.train.targets.astype(float) * before.target_scale + before.target_mean
    train_rows = [int(np.argmin(np.abs(frame["price"].to_numpy() - value))) for value in back]
    assert len(set(train_rows)) == before.n_samples
    others = np.setdiff1d(np.arange(len(frame)), train_rows)
    changed = frame.astype({name: object for name in frame.columns if name != "price"})
    for name, value in {
        "size": "1e9",
        "city": "Atlantis",
        "garden": "perhaps",
        "sold": "long ago",
        "constant": 9,
    }.items():
        changed.loc[others, name] = value
    after = load_dataset(saved(changed, "changed.csv"), target="price", seed=5)
    assert after.feature_names == before.feature_names
    assert np.array_equal(after.train.inputs, before.train.inputs)
    assert np.array_equal(after.train.targets, before.train.targets)
    assert np.isfinite(after.test.inputs).all()
    assert np.abs(after.test.inputs[:, after.feature_names.index("size")]).max() == 10.0


def test_fifty_thousand_rows_are_capped_and_said(saved):
    rng = np.random.default_rng(0)
    table = pd.DataFrame(rng.normal(size=(50_000, 5)).round(3), columns=list("abcde")).assign(
        kind=rng.choice(["x", "y"], 50_000), code=[f"c{j}" for j in rng.integers(0, 5_000, 50_000)]
    )
    data = load_dataset(saved(table), target="e")
    assert [len(data.train), len(data.valid), len(data.test)] == [5_000, 1_000, 2_000]
    assert data.n_available == 30_000
    assert "subsampled 30,000 training rows to 5,000 (--samples changes that)" in data.notes
    assert data.n_features < 50
    assert load_dataset(saved(table), target="e", n_samples=12_345).n_samples == 12_345


def test_a_second_file_checks_and_the_first_all_trains(saved, frame):
    first, second = saved(frame.iloc[:250], "a.csv"), saved(frame.iloc[250:].assign(more=1), "b.csv")
    data = load_dataset(first, target="kind", valid_source=second)
    assert [len(data.train), len(data.valid), len(data.test)] == [250, 75, 75]
    assert data.content_hash != load_dataset(first, target="kind").content_hash
    typed = load_dataset(first, target="kind", valid_source=saved(frame.iloc[250:], "b.parquet"))
    assert np.array_equal(typed.test.inputs, data.test.inputs)


def test_nothing_leaks_from_a_second_file(saved):
    table = marked()
    first, second = saved(table.iloc[:120], "a.csv"), saved(table.iloc[120:].assign(g=lambda f: f["g"] + 10), "b.csv")
    data = load_dataset(first, target="y", valid_source=second, group_column="g")
    assert any("left out" in note and "second file" in note for note in data.notes)
    ordered = table.sort_values("t")
    overlapping = pd.concat([ordered.iloc[100:], ordered.iloc[:5]])
    with pytest.raises(DataError, match="at least 10"):
        load_dataset(saved(ordered, "c.csv"), target="y", valid_source=saved(overlapping, "d.csv"), time_column="t")
    data = load_dataset(
        saved(ordered.iloc[:120], "c.csv"), target="y", valid_source=saved(ordered.iloc[90:], "d.csv"), time_column="t"
    )
    assert data.n_samples == 90
    with pytest.raises(DataError, match="none can check it"):
        load_dataset(saved(ordered, "c.csv"), target="y", valid_source=saved(overlapping, "d.csv"), group_column="g")


def test_second_files_that_do_not_fit(saved, frame):
    path = saved(frame, "a.csv")
    with pytest.raises(DataError, match=r"lacks 1 column of 'a\.csv': 'size'"):
        load_dataset(path, target="price", valid_source=saved(frame.drop(columns="size"), "b.csv"))
    with pytest.raises(OptionError, match="same content"):
        load_dataset(path, target="price", valid_source=saved(frame, "copy.csv"))


def test_rare_and_unseen_classes(saved, frame):
    lonely = frame.assign(kind=["castle", *frame["kind"][1:]])
    data = load_dataset(saved(lonely), target="kind")
    assert data.class_names == ("flat", "house", "villa")
    assert "dropped 1 class that had a single row: 'castle'" in data.notes
    late = frame.assign(kind=[*frame["kind"][:390], *["castle"] * 10], t=np.arange(400))
    data = load_dataset(saved(late), target="kind", time_column="t")
    assert "left out 10 test rows of classes that training has not seen" in data.notes
    assert len(data.test) == 70


def test_a_date_that_is_none_is_missing_and_said(saved, frame):
    data = load_dataset(saved(frame.assign(sold=["soon", *frame["sold"][1:]])), target="price", time_column="sold")
    assert "dropped 1 row whose 'sold' is missing" in data.notes
    few = frame.assign(sold=np.where(np.arange(400) % 40 == 0, "soon", frame["sold"]))
    notes = load_dataset(saved(few), target="price").notes
    assert any("no date (such as 'soon'), taken as missing" in note for note in notes)


def test_missing_and_infinite_values(saved):
    rng = np.random.default_rng(0)
    table = pd.DataFrame({"x": rng.normal(size=100), "y": rng.normal(size=100)})
    table.loc[:9, "x"] = np.inf
    table.loc[5:14, "y"] = np.nan
    table.loc[15:16, "y"] = -np.inf
    for name in ("a.csv", "a.parquet"):
        data = load_dataset(saved(table, name), target="y")
        assert data.n_available == round(0.6 * 88)
        assert "dropped 12 rows whose target is missing" in data.notes
        assert any("'x'" in note and "taken as missing" in note for note in data.notes)
        assert "x is missing" in data.feature_names


@pytest.mark.parametrize(
    ("change", "options", "said"),
    [
        ({}, {"target": "prise"}, "did you mean 'price'"),
        ({}, {"target": "price", "group_column": "ower"}, "did you mean 'owner'"),
        ({}, {"target": "price", "time_column": "city"}, "must hold numbers or dates but holds"),
        ({"owner": lambda f: np.arange(len(f)) % 2}, {"target": "price", "group_column": "owner"}, "at least 3"),
        ({"owner": lambda f: np.arange(len(f)) % 2}, {"target": "price", "time_column": "owner"}, "at least 3"),
        ({"price": 3.0}, {"target": "price"}, "constant"),
        ({"price": np.nan}, {"target": "price"}, "no usable value"),
        (
            {"price": lambda f: f["price"].where(f.index < 15)},
            {"target": "price"},
            "15 usable rows of 400; at least 20",
        ),
        ({"kind": lambda f: ["x", *["y"] * (len(f) - 1)]}, {"target": "kind"}, "fewer than two classes"),
    ],
)
def test_tables_that_cannot_be_learned(saved, frame, change, options, said):
    with pytest.raises(DataError, match=said) as raised:
        load_dataset(saved(frame.assign(**change)), **options)
    assert len(str(raised.value)) < 300


def test_no_usable_column(saved, frame):
    for columns, said in ((["price"], "holds only the target"), (["price", "identifier", "constant"], "identifier")):
        with pytest.raises(DataError, match=said):
            load_dataset(saved(frame[columns]), target="price")


def test_twenty_rows_are_enough_and_nineteen_are_not(saved, frame):
    assert load_dataset(saved(frame.head(20)), target="price").n_samples == 12
    with pytest.raises(DataError, match="19 usable rows of 19; at least 20"):
        load_dataset(saved(frame.head(19)), target="price")


def test_targets_of_any_magnitude(saved):
    rng = np.random.default_rng(0)
    for scale, shift in ((1e-300, 0.0), (1e90, 0.0), (1.0, 1e12)):
        table = pd.DataFrame({"x": rng.normal(size=60), "y": rng.normal(size=60) * scale + shift})
        data = load_dataset(saved(table), target="y")
        assert data.train.targets.std() == pytest.approx(1.0, abs=1e-4)


def test_names_that_collide_after_encoding_are_no_trouble(saved):
    rng = np.random.default_rng(0)
    table = pd.DataFrame({"a=b": rng.normal(size=60), "a": rng.choice(["b", "c"], 60), "y": rng.normal(size=60)})
    assert load_dataset(saved(table), target="y").feature_names == ("a=b", "a=b", "a=c")


def test_nothing_is_evaluated(saved):
    rows = "".join(f'"__import__(\'os\').abort()",{j % 2}\n"=1+1",{j % 2}\n' for j in range(30))
    assert load_dataset(saved(io.StringIO("x,y\n" + rows).getvalue()), target="y").n_features == 2
