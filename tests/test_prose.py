"""The lint of texts finds what it is for, and nothing in the texts of the project."""

import pytest

from tools.prose import findings_of, rules_broken

FAULTS = {
    "where": "The solver takes values where there are no Jacobians.",
    "who acts": "The user is told that a column is missing.",
    "instead of 'left-out'": "The error on left-out samples is small.",
    "a colon and a semicolon": "It does two things: the first is a fit; the second is a report.",
    "31 words": " ".join(["word"] * 31) + ".",
}
SOUND = (
    "The file says where the samples lie, and the place where the model is saved.",
    "Minimise $f$, where $f$ is the misfit.",
    "If there are no Jacobians, the solver takes values.",
    "Where do the samples come from?",
)


@pytest.mark.parametrize("rule", FAULTS)
def test_each_fault_is_found(rule, tmp_path):
    (tmp_path / "page.md").write_text(f"# Title\n\nA sound sentence.\n\n- {FAULTS[rule]}\n")
    (found,) = findings_of(tmp_path / "page.md")
    assert rule in found.rule and found.line == 5
    (tmp_path / "module.py").write_text(f'def fit(x):\n    """Fit x.\n\n    {FAULTS[rule]}\n    """\n')
    (found,) = findings_of(tmp_path / "module.py")
    assert rule in found.rule


def test_messages_are_read_as_well(tmp_path):
    (tmp_path / "module.py").write_text('def fit(x):\n    raise ValueError(f"{x}: the error on left-out samples.")\n')
    (found,) = findings_of(tmp_path / "module.py")
    assert "left-out" in found.rule and found.line == 2


def test_texts_between_cells_of_the_gallery_are_read(tmp_path):
    (tmp_path / "plot_it.py").write_text(
        "x = 1\n\n# %%\n# Title\n# -----\n# The error on left-out samples.\ny = 2  # left-out\n"
    )
    (found,) = findings_of(tmp_path / "plot_it.py")
    assert "left-out" in found.rule and found.line == 6


@pytest.mark.parametrize("sentence", SOUND)
def test_sound_sentences_pass(sentence):
    assert not list(rules_broken(sentence.replace("$f$", "Code")))


def test_code_formulas_and_private_docstrings_are_not_read(tmp_path):
    long = " ".join(["word"] * 40)
    (tmp_path / "page.md").write_text(f"Text.\n\n```python\n{long}\n```\n\n$$\n{long}\n$$\n\n`{long}`\n")
    (tmp_path / "module.py").write_text(
        f'def _fit(x):\n    """{long}"""\n\n\ndef run():\n    """Run.\n\n    >>> {long}\n    """\n'
    )
    assert not [*findings_of(tmp_path / "page.md"), *findings_of(tmp_path / "module.py")]
