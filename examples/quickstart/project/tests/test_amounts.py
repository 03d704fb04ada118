import pytest

from coinpurse import format_amount, parse_amount


@pytest.mark.parametrize("text, cents", [("12 USD", 1200), ("0.05 EUR", 5)])
def test_parse(text, cents):
    assert parse_amount(text)[0] == cents


@pytest.mark.parametrize("text", ["", "twelve EUR", "1,23 EUR", "12.5 EUR"])
def test_rejects(text):
    with pytest.raises(ValueError):
        parse_amount(text)


def test_format():
    assert format_amount(1250, "EUR") == "12.50 EUR"
