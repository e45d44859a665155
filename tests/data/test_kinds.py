import datetime
import decimal

import numpy as np
import pyarrow as pa
import pytest

from archopt.data.kinds import ColumnType, convert, labels_of, plain_values, recognise


def read(values, kind=None):
    declared, plain = plain_values(pa.chunked_array([pa.array(values, kind)]))
    found = recognise(declared, plain)
    return found, convert(declared, plain, found)


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        (["1", "2.5", "1e3", None, " 7 "], "number"),
        (["true", "FALSE", None], "boolean"),
        (["yes", "no", "maybe"], "category"),
        (["2024-01-31", "2024-02-01", None], "date"),
        (["2024-01-31T10:00:00Z", "2024-02-01T10:00:00+02:00"], "date"),
        (["31.01.2024", "01.02.2024"], "date"),
        (["01/31/2024", "02/01/2024"], "date"),
        (["31/01/2024", "01/02/2024"], "date"),
        (["1.5"] * 19 + ["unknown"], "number"),
        (["soon"] + ["2024-01-31"] * 19, "date"),
        (["soon"] * 2 + ["2024-01-31"] * 18, "category"),
        (["1.5"] * 18 + ["unknown"] * 2, "category"),
        ([True, None], "boolean"),
        ([1, None], "number"),
        ([decimal.Decimal("1.5")], "number"),
        ([datetime.date(2024, 1, 1)], "date"),
        ([datetime.time(1, 0)], "number"),
        ([datetime.timedelta(seconds=90)], "number"),
        ([[1, 2]], "nested"),
        ([b"x"], "nested"),
        ([None, None], "number"),
    ],
)
def test_what_a_column_holds(values, kind):
    assert read(values)[0].kind == kind


def test_times_and_durations_are_seconds():
    assert read([datetime.time(1, 0, 2)])[1].tolist() == [3602.0]
    assert read([datetime.timedelta(minutes=2), None])[1][0] == 120.0


def test_day_first_is_told_from_month_first():
    assert read(["03/31/2024"])[1][0] == np.datetime64("2024-03-31")
    assert read(["31/03/2024"])[1][0] == np.datetime64("2024-03-31")


def test_zones_become_utc():
    assert read(["2024-01-01T01:00:00+02:00"])[1][0] == np.datetime64("2023-12-31T23:00:00")


def test_decimal_commas_are_read_but_thousands_are_not_guessed():
    assert read(["1,5", "-2,25"])[1].tolist() == [1.5, -2.25]
    assert read(["1,000", "2,000"])[0].kind == "category"


def test_infinite_and_junk_numbers_are_missing():
    values = read([1.0, np.inf, -np.inf, 1e200])[1]
    assert values[0] == 1.0
    assert np.isnan(values[1:]).all()
    assert np.isnan(read(["1"] * 30 + ["inf", "?"])[1][-2:]).all()


@pytest.mark.parametrize("wanted", ["number", "boolean", "date", "category"])
@pytest.mark.parametrize("values", [["x", None], [1.5, None], [True, None], [datetime.date(2024, 1, 1), None], [[1]]])
def test_a_second_file_of_another_type_gives_values_or_missing_but_never_fails(values, wanted):
    declared, plain = plain_values(pa.chunked_array([pa.array(values)]))
    assert len(convert(declared, plain, ColumnType(wanted))) == len(values)


def test_dictionary_columns_are_decoded():
    assert read(pa.array(["a", "b", "a"]).dictionary_encode())[1].tolist() == ["a", "b", "a"]


def test_labels_of_whole_numbers_have_no_point():
    assert labels_of(np.array([1.0, 2.5, np.nan])).tolist() == ["1", "2.5", None]
