"""A dictionary that fills itself."""

import pytest

from steersman.models.memo import Memo


def test_each_result_is_made_once():
    asked = []
    memo = Memo(lambda key: asked.append(key) or key * 2, 10)
    assert [memo[1], memo[2], memo[1]] == [2, 4, 2]
    assert asked == [1, 2]


def test_no_more_are_kept_than_it_says():
    memo = Memo(str, 3)
    for n in range(10):
        assert memo[n] == str(n)
        assert len(memo) <= 3


def test_what_cannot_be_made_is_not_kept():
    memo = Memo(lambda key: 1 / key, 3)
    with pytest.raises(ZeroDivisionError):
        memo[0]
    assert not memo
