"""What docs/silverbox.md and the README say of the Silverbox."""

import pytest

from tests.words.quotes import Page, median, read

CONTENT = read("silverbox/silverbox.json")
APPROXIMATION, SIMULATION = "model approximation error", "simulation error"
PRINTED = ("Zniyed", "TS-Zniyed", "TS-PROJ-CMPT-1", "Hollander", "TS-CONSTR-CMPT-1")
RANKS = (2, 3, 4, 5, 6)


def error(algorithm, rank, quantity, field="median"):
    return median(CONTENT["cells"], field, algorithm=algorithm, rank=rank, quantity=quantity)


@pytest.fixture
def page():
    return Page("docs/silverbox.md")


def simulated(algorithm, rank):
    return [error(algorithm, rank, SIMULATION, field) for field in ("median", "mean")]


def below(algorithm, others, rank, quantities=(APPROXIMATION, SIMULATION)):
    return all(error(algorithm, rank, each) < error(other, rank, each) for each in quantities for other in others)


def test_constr_is_the_best_of_the_paper_from_rank_3_on(page):
    assert page.says("From rank 3 on, TS-CONSTR-CMPT-1 is the best of the paper's algorithms in both errors.")
    assert all(below("TS-CONSTR-CMPT-1", PRINTED[:-1], rank) for rank in RANKS[1:])
    assert page.says(
        "At rank 2 it is not: TS-PROJ-CMPT-1 approximates the model better and TS-Zniyed simulates better."
    )
    assert below("TS-PROJ-CMPT-1", ["TS-CONSTR-CMPT-1"], 2, [APPROXIMATION])
    assert below("TS-Zniyed", ["TS-CONSTR-CMPT-1"], 2, [SIMULATION])


def test_hollander_is_ahead_of_the_projections_from_rank_4_on(page):
    assert page.says("Hollander's method is ahead of the projections from rank 4 on;")
    assert all(below("Hollander", PRINTED[:3], rank) for rank in RANKS[2:])
    assert page.says("at rank 3 TS-PROJ-CMPT-1 approximates better.")
    assert below("TS-PROJ-CMPT-1", ["Hollander"], 3, [APPROXIMATION])


def test_where_two_stages_help_zniyed(page):
    assert page.says("Two stages help Zniyed's method at ranks 2, 4 and 6 in both errors;")
    assert all(below("TS-Zniyed", ["Zniyed"], rank) for rank in (2, 4, 6))
    assert page.says("they do not in approximation at rank 3, nor in simulation at rank 5.")
    assert not below("TS-Zniyed", ["Zniyed"], 3, [APPROXIMATION])
    assert not below("TS-Zniyed", ["Zniyed"], 5, [SIMULATION])


def test_means_lie_above_medians(page):
    assert page.says("Means lie above medians for the paper's two-stage algorithms and for Hollander's")
    for algorithm in PRINTED[1:]:
        for rank in RANKS:
            for quantity in (APPROXIMATION, SIMULATION):
                assert error(algorithm, rank, quantity) < error(algorithm, rank, quantity, "mean")
    assert page.says(
        "ours are {} and {} in simulation at rank 4, {} and {} at rank 5.",
        *simulated("TS-CONSTR-CMPT-1", 4),
        *simulated("TS-CONSTR-CMPT-1", 5),
    )


def test_varpro_is_below_all_of_them_at_every_rank(page):
    assert page.says("VarPro is below all of them at every rank in both errors, and its approximation never rises")
    assert all(below("VarPro", PRINTED, rank) for rank in RANKS)
    falling = [error("VarPro", rank, APPROXIMATION) for rank in RANKS]
    assert falling == sorted(falling, reverse=True)


def test_the_means_and_medians_of_varpro(page):
    assert page.says(
        "({} and {} in simulation), less so at rank 2 ({} and {}).", *simulated("VarPro", 3), *simulated("VarPro", 2)
    )
    free_runs = [error("VarPro", rank, SIMULATION) for rank in (4, 6)]
    assert page.says("Its free run has {} % at rank 4 and {} % at rank 6", *free_runs)
    assert page.says("that of the model it decouples {} %", CONTENT["reference"]["relative_rmse_percent"])


def test_the_readme():
    refined = median(CONTENT["refined"], "after_mv.0")
    assert Page("README.md").says("{} instead of {} mV on the multisine", refined, CONTENT["reference"]["rmse_mv"][0])
