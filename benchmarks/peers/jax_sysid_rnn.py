"""jax-sysid: a residual recurrent network, x(t+1) = A x + B u + W_2 tanh(W_1 [x, u] + b), y = C x + D u + c.

Run as ``python jax_sysid_rnn.py DATA.npz OUT.npz NEURONS STATES [STARTS [SAMPLES [LBFGS]]]``; `exchange.py` says what
the files hold. Of several starts, each fitted to the first three quarters of the training record, the one with the
smallest free-run error on the last quarter is finished on all of it. SAMPLES and LBFGS limit what a long record costs.

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
WINDOW = 50  # outputs that tell the state at the beginning of held-back data


def main(
    data_path: str,
    out_path: str,
    neurons: str,
    states: str,
    starts: str = "1",
    samples: str = "1000000",
    lbfgs: str = str(LBFGS),
) -> None:
    n = int(states)
    jax.config.update("jax_enable_x64", True)
    data = np.load(data_path)
    u, y = data["u_train"], data["y_train"]
    began = time.process_time()
    U, Y = standardise(u, u)[: int(samples)], standardise(y, y)[: int(samples)]
    first = linear_start(U[:LINEAR_SAMPLES], Y[:LINEAR_SAMPLES], n)
    begun = [with_network(first, int(neurons), n, seed) for seed in range(int(starts))]
    if len(begun) > 1:
        cut = 3 * len(U) // 4
        tried = [train_model(params, U[:cut], Y[:cut], n, int(lbfgs)) for params in begun]
        errors = [validation_error(model, U[cut:], Y[cut:], n) for model in tried]
        print("validation errors of the starts", errors)
        begun = [tried[int(np.argmin(errors))].params]
    model = train_model(begun[0], U, Y, n, int(lbfgs))
    seconds = time.process_time() - began

    simulated = {}
    for test in data["tests"]:
        U_test, Y_init = standardise(data[f"u_{test}"], u), standardise(data[f"y_init_{test}"], y)
        x0 = initial_state(model, U_test[: len(Y_init)], Y_init, n)
        Y_test, _ = model.predict(x0, U_test)
        simulated[f"y_{test}"] = y.mean() + y.std() * np.asarray(Y_test)[:, 0]
    n_parameters = sum(np.size(p) for p in model.params)
    np.savez(out_path, n_parameters=n_parameters, seconds=seconds, **simulated)


def state(x, u, params):
    A, B, _, _, W1, b, W2, _ = params
    return A @ x + B @ u + W2 @ jnp.tanh(W1 @ jnp.hstack((x, u)) + b)


def output(x, u, params):
    _, _, C, D, _, _, _, c = params
    return C @ x + D @ u + c


def train_model(params: list, U: np.ndarray, Y: np.ndarray, n: int, lbfgs: int) -> Model:
    model = Model(n, 1, 1, state_fcn=state, output_fcn=output)
    model.init(params=params)
    model.loss(rho_x0=1e-6, rho_th=1e-9)
    model.optimization(adam_eta=1e-3, adam_epochs=ADAM, lbfgs_epochs=lbfgs, memory=20, iprint=-1)
    model.fit(Y, U)
    return model


def initial_state(model: Model, U: np.ndarray, Y: np.ndarray, n: int) -> np.ndarray:
    R, Q = 1e-4 * np.eye(1), 1e-10 * np.eye(n)
    return np.asarray(model.learn_x0(U, Y, rho_x0=1e-6, R=R, Q=Q, RTS_epochs=5, verbosity=False))


def validation_error(model: Model, U: np.ndarray, Y: np.ndarray, n: int) -> float:
    """Root mean square error of the free run from the state that the first outputs tell; infinite where it escapes."""
    run = np.asarray(model.predict(initial_state(model, U[:WINDOW], Y[:WINDOW], n), U)[0])
    error = np.sqrt(np.mean((run - Y)[WINDOW:] ** 2))
    return float(error) if np.isfinite(error) else np.inf


def linear_start(U: np.ndarray, Y: np.ndarray, n: int) -> tuple[np.ndarray, ...]:
    """The package's linear model, in states of unit size."""
    linear = LinearModel(n, 1, 1, feedthrough=True)
    linear.loss(rho_x0=1e-6, rho_th=1e-8)
    linear.optimization(adam_eta=1e-2, adam_epochs=LINEAR_ADAM, lbfgs_epochs=LINEAR_LBFGS, iprint=-1)
    linear.init(sigma=0.9, seed=0)
    linear.fit(Y, U)
    A, B, C, D = linear.ssdata()
    size = np.std(linear.predict(linear.x0, U)[1], axis=0)
    return A * size / size[:, None], B / size[:, None], C * size, D


def with_network(linear: tuple[np.ndarray, ...], neurons: int, n: int, seed: int) -> list:
    """The linear model with small random weights of the network."""
    rng = np.random.default_rng(seed)
    W1, b = 0.5 * rng.normal(size=(neurons, n + 1)), 0.5 * rng.normal(size=neurons)
    W2 = 0.01 * rng.normal(size=(n, neurons))
    return [jnp.asarray(value) for value in (*linear, W1, b, W2, np.zeros(1))]


def standardise(signal: np.ndarray, reference: np.ndarray) -> np.ndarray:
    return ((signal - reference.mean()) / reference.std())[:, None]


if __name__ == "__main__":
    main(*sys.argv[1:])
