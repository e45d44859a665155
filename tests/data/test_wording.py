from hypothesis import given, settings
from hypothesis import strategies as st

from archopt.data.wording import counted, did_you_mean, listed, nearest, shown


@settings(deadline=None, derandomize=True, max_examples=60)
@given(st.text() | st.integers() | st.just(10**6000) | st.just("x" * 10_000), st.integers(10, 60))
def test_shown_is_one_short_printable_line(value, limit):
    text = shown(value, limit)
    assert len(text) <= limit
    assert text.isprintable()


def test_shown_escapes_control_characters():
    assert shown("a\x1b[31m\n") == r"'a\x1b[31m\n'"


def test_listed_says_how_many_more():
    assert listed(["a", "b", "c"], 2) == "'a', 'b' and 1 more"
    assert listed(["a", "b"], 2) == "'a', 'b'"


def test_nearest_ignores_case_and_gives_the_name_as_it_is():
    assert nearest("PRISE", ["Price", "size"]) == "Price"
    assert nearest("zzz", ["Price", "size"]) is None
    assert did_you_mean("prise", ["price"]) == "; did you mean 'price'?"
    assert did_you_mean("zzz", ["price"]) == ""


def test_counted():
    assert [counted(1, "row"), counted(2_000, "row"), counted(2, "class")] == ["1 row", "2,000 rows", "2 classes"]
