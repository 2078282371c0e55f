"""What README.md and docs/selection.md say of chosen ranks."""

from tests.words.quotes import Page, read

RUNS = read("selection/selection.json")["runs"]


def test_as_many_ranks_are_found_as_the_texts_say():
    assert Page("README.md").says("23 of 24 data sets without noise and 24 of 24 with noise of 1e-3")
    clean, noisy = ([run["ranks_found"] for run in RUNS if bool(run["noise"]) is noise] for noise in (False, True))
    assert (sum(clean), len(clean)) == (23, 24) and (sum(noisy), len(noisy)) == (24, 24)


def test_the_one_miss_is_told():
    assert Page("docs/selection.md").says("The one miss is a search that went wrong")
    [miss] = [run for run in RUNS if not run["ranks_found"]]
    assert miss["group"] == "f3" and miss["score"] > miss["true_score"]
