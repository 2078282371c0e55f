"""jax-sysid: a residual recurrent network, x(t+1) = A x + B u + W_2 tanh(W_1 [x, u] + b), y = C x + D u + c.

Run as ``python jax_sysid_rnn.py DATA.npz OUT.npz NEURONS STATES``; `exchange.py` says what the files hold.

As its documentation advises, signals are scaled to zero mean and unit variance, and Adam is followed by L-BFGS on the
free-run error of the whole training record. The linear part starts from the package's own linear model of the first
samples; from random values the resonance is found late or never. The initial state of a test is what `learn_x0`
finds from the outputs that may be used.
"""

import sys
import time

import jax
import jax.numpy as jnp
import numpy as np
from jax_sysid.models import LinearModel, Model

LINEAR_SAMPLES, LINEAR_ADAM, LINEAR_LBFGS = 8192, 1000, 1000
ADAM, LBFGS = 500, 6000


def main(data_path: str, out_path: str, neurons: str, states: str) -> None:
    n = int(states)
    jax.config.update("jax_enable_x64", True)
    data = np.load(data_path)
    u, y = data["u_train"], data["y_train"]
    began = time.process_time()
    U, Y = standardised(u, u), standardised(y, y)
    model = Model(n, 1, 1, state_fcn=state, output_fcn=output)
    model.init(params=start(U[:LINEAR_SAMPLES], Y[:LINEAR_SAMPLES], int(neurons), n))
    model.loss(rho_x0=1e-6, rho_th=1e-9)
    model.optimization(adam_eta=1e-3, adam_epochs=ADAM, lbfgs_epochs=LBFGS, memory=20, iprint=-1)
    model.fit(Y, U)
    seconds = time.process_time() - began

    simulated = {}
    for test in data["tests"]:
        U_test, Y_init = standardised(data[f"u_{test}"], u), standardised(data[f"y_init_{test}"], y)
        x0 = model.learn_x0(
            U_test[: len(Y_init)],
            Y_init,
            rho_x0=1e-6,
            R=1e-4 * np.eye(1),
            Q=1e-10 * np.eye(n),
            RTS_epochs=5,
            verbosity=False,
        )
        Y_test, _ = model.predict(np.asarray(x0), U_test)
        simulated[f"y_{test}"] = y.mean() + y.std() * np.asarray(Y_test)[:, 0]
    n_parameters = sum(np.size(p) for p in model.params)
    np.savez(out_path, n_parameters=n_parameters, seconds=seconds, **simulated)


def state(x, u, params):
    A, B, _, _, W1, b, W2, _ = params
    return A @ x + B @ u + W2 @ jnp.tanh(W1 @ jnp.hstack((x, u)) + b)


def output(x, u, params):
    _, _, C, D, _, _, _, c = params
    return C @ x + D @ u + c


def start(U: np.ndarray, Y: np.ndarray, neurons: int, n: int) -> list:
    """The linear model, in states of unit size, and small random weights of the network."""
    linear = LinearModel(n, 1, 1, feedthrough=True)
    linear.loss(rho_x0=1e-6, rho_th=1e-8)
    linear.optimization(adam_eta=1e-2, adam_epochs=LINEAR_ADAM, lbfgs_epochs=LINEAR_LBFGS, iprint=-1)
    linear.init(sigma=0.9, seed=0)
    linear.fit(Y, U)
    A, B, C, D = linear.ssdata()
    size = np.std(linear.predict(linear.x0, U)[1], axis=0)
    rng = np.random.default_rng(0)
    W1, b = 0.5 * rng.normal(size=(neurons, n + 1)), 0.5 * rng.normal(size=neurons)
    W2 = 0.01 * rng.normal(size=(n, neurons))
    values = [A * size / size[:, None], B / size[:, None], C * size, D, W1, b, W2, np.zeros(1)]
    return [jnp.asarray(value) for value in values]


def standardised(signal: np.ndarray, reference: np.ndarray) -> np.ndarray:
    return ((signal - reference.mean()) / reference.std())[:, None]


if __name__ == "__main__":
    main(*sys.argv[1:])
