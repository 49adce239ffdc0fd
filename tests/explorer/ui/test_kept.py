"""Results kept by hand: found again, bounded, forgotten when asked."""

from explorer.ui.kept import Kept


def test_what_is_known_is_not_made_again_and_the_oldest_goes_first() -> None:
    made: list[int] = []

    def make(number: int) -> int:
        made.append(number)
        return number

    kept: Kept[int] = Kept(2)
    for number in (1, 2, 1, 3, 2, 1):
        assert kept.get(number, lambda number=number: make(number)) == number  # type: ignore[misc]
    assert made == [1, 2, 3, 1]
    kept.forget(1)
    assert 1 not in kept
    assert 3 in kept


def test_what_is_not_worth_it_is_handed_over_only() -> None:
    kept: Kept[str] = Kept(2)
    assert kept.get("stopped", lambda: "half", lambda found: found != "half") == "half"
    assert "stopped" not in kept
