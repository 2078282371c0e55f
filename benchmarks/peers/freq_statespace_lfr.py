"""freq-statespace: its Silverbox quick start, a linear state space model with one cubic polynomial in feedback.

Run as ``python freq_statespace_lfr.py DATA.npz OUT.npz PERIOD [STATES]``; `exchange.py` says what the two files hold.
PERIOD is "silverbox", or "whole" to take the whole record for one period, all lines excited.

Two states by default, best linear approximation, inference and learning, then nonlinear optimisation, all with the
settings of the quick start. That cuts six realisations of the multisine out of the training record; all seven that
are whole are used here. The initial state of a test is fitted to the outputs that may be used, by Gauss-Newton.
"""

import sys
import time

import freq_statespace as fss
import jax
import numpy as np

DEGREE = 3
PERIOD, N_REALISATIONS, FIRST, GAP = 8192, 7, 164, 500  # samples; as the package cuts the record
EXCITED = np.arange(1, 2 * 1342, 2)


def main(data_path: str, out_path: str, period: str, states: str = "2") -> None:
    n = int(states)
    jax.config.update("jax_enable_x64", True)
    data = np.load(data_path)
    cut = realisations if period == "silverbox" else whole
    u, y = (cut(data[name]) for name in ("u_train", "y_train"))
    excited = EXCITED if period == "silverbox" else np.arange(1, len(u) // 2)
    began = time.process_time()
    records = fss.create_data_object(u, y, excited, 1.0 / float(data["sampling_time"]))
    linear = fss.lin.optimize(fss.lin.subspace_id(records, n), records)
    features = fss.static.basis.Polynomial(1, degree=DEGREE)
    model = fss.nonlin.inference_and_learning(linear, records, features, 1)
    model = fss.nonlin.optimize(model, records)
    seconds = time.process_time() - began

    simulated = {}
    for test in data["tests"]:
        u_test, y_init = data[f"u_{test}"], data[f"y_init_{test}"]
        simulated[f"y_{test}"] = simulate(model, u_test, initial_state(model, u_test[: len(y_init)], y_init, n))
    parts = (model.A, model.B_u, model.C_y, model.D_yu, model.B_w, model.C_z, model.D_yw, model.D_zu)
    n_parameters = sum(part.size for part in (*parts, model.func_static.beta))
    np.savez(out_path, n_parameters=n_parameters, seconds=seconds, **simulated)


def realisations(signal: np.ndarray) -> np.ndarray:
    """Whole periods as (samples, channels, realisations, periods)."""
    begins = [FIRST + k * (PERIOD + GAP) for k in range(N_REALISATIONS)]
    return np.stack([signal[b : b + PERIOD] for b in begins], axis=1)[:, None, :, None]


def whole(signal: np.ndarray) -> np.ndarray:
    return signal[:, None, None, None]


def simulate(model: fss.ModelNonlinearLFR, u: np.ndarray, x0: np.ndarray) -> np.ndarray:
    return np.asarray(model.simulate(u[:, None, None], x0=x0[:, None])[0])[:, 0, 0]


def initial_state(model: fss.ModelNonlinearLFR, u: np.ndarray, y: np.ndarray, n: int) -> np.ndarray:
    """Gauss-Newton with differences; the outputs are nearly linear in the initial state."""
    x0, step = np.zeros(n), 1e-4
    for _ in range(8):
        run = simulate(model, u, x0)
        slopes = [(simulate(model, u, x0 + step * unit) - run) / step for unit in np.eye(n)]
        x0 = x0 + np.linalg.lstsq(np.stack(slopes, axis=1), y - run, rcond=None)[0]
    return x0


if __name__ == "__main__":
    main(*sys.argv[1:])
