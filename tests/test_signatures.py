"""No public signature changes unnoticed."""

from tests.signatures import collected, recorded


def test_public_signatures_are_the_ones_that_were_written_down():
    changed = sorted({*recorded()} ^ {*collected()})
    assert not changed, (
        f"Public signatures have changed. Say so in CHANGELOG.md, then run `python -m tests.signatures`: {changed[:10]}"
    )
