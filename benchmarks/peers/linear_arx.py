"""Linear ARX model by least squares, the baseline: y(t) from 1, u(t), u(t-1), y(t-1), y(t-2), y(t-3).

Run as ``python linear_arx.py DATA.npz OUT.npz``; `exchange.py` says what the two files hold.
"""

import sys
import time

import numpy as np

N_U, N_Y = 1, 3


def main(data_path: str, out_path: str) -> None:
    data = np.load(data_path)
    u, y = data["u_train"], data["y_train"]
    began = time.process_time()
    times = range(N_Y, len(u))
    past_u = [u[N_Y - k : len(u) - k] for k in range(N_U + 1)]
    past_y = [y[N_Y - k : len(y) - k] for k in range(1, N_Y + 1)]
    X = np.stack([np.ones(len(times)), *past_u, *past_y], axis=1)
    theta = np.linalg.lstsq(X, y[N_Y:], rcond=None)[0]
    seconds = time.process_time() - began
    simulated = {f"y_{test}": simulate(theta, data[f"u_{test}"], data[f"y_init_{test}"]) for test in data["tests"]}
    np.savez(out_path, n_parameters=theta.size, seconds=seconds, **simulated)


def simulate(theta: np.ndarray, u: np.ndarray, y_init: np.ndarray) -> np.ndarray:
    """Free run from the measured outputs `y_init`."""
    constant, b, a = theta[0], theta[1 : 2 + N_U], theta[2 + N_U :]
    y = np.zeros(len(u))
    y[: len(y_init)] = y_init
    for t in range(len(y_init), len(u)):
        y[t] = constant + b @ u[t - N_U : t + 1][::-1] + a @ y[t - N_Y : t][::-1]
    return y


if __name__ == "__main__":
    main(*sys.argv[1:])
