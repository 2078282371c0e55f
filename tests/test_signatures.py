"""No public signature changes without the CHANGELOG being touched."""

from tests.signatures import changelog, collected, main, recorded


def test_public_signatures_are_the_ones_that_were_written_down():
    _, lines = recorded()
    now = collected()
    changed = sorted({*lines} ^ {*now})
    assert not changed, (
        f"Public signatures have changed. Say so in CHANGELOG.md, then run `python -m tests.signatures`: {changed[:10]}"
    )


def test_signatures_are_not_written_down_while_the_changelog_is_as_it_was(tmp_path, monkeypatch):
    record = tmp_path / "public_signatures.txt"
    monkeypatch.setattr("tests.signatures.RECORD", record)
    record.write_text(f"# CHANGELOG.md {changelog()}\nold(a)\n")
    try:
        main()
    except SystemExit as refusal:
        assert "CHANGELOG.md first" in str(refusal)
    else:
        raise AssertionError("it was written down")
    record.write_text("# CHANGELOG.md of another day\nold(a)\n")
    main()
    assert recorded() == (changelog(), collected())
