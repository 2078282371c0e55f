"""SysIdentPy: polynomial NARX whose terms are chosen by FROLS, with the regressors of our reference model.

Run as ``python sysidentpy_frols.py DATA.npz OUT.npz TERMS [LAGS [SAMPLES]]``, where TERMS is a number of terms or
"bic" to let the criterion choose; `exchange.py` says what the files hold. With LAGS, so many past outputs and inputs
are regressors; SAMPLES limits what a long record costs.

Its input lags begin at 1, so the input is given one sample early: its x(k-1), x(k-2) are our u(t), u(t-1). Signals are
divided by their largest training values.
"""

import sys
import time

import numpy as np
from sysidentpy.basis_function import Polynomial
from sysidentpy.model_structure_selection import FROLS
from sysidentpy.parameter_estimation import LeastSquares

N_Y, N_X, DEGREE, N_CANDIDATES = 3, 2, 3, 56


def main(data_path: str, out_path: str, terms: str, lags: str = "", samples: str = "1000000") -> None:
    n_y, n_x = (int(lags), int(lags) + 1) if lags else (N_Y, N_X)
    data = np.load(data_path)
    u, y = data["u_train"][: int(samples)], data["y_train"][: int(samples)]
    scale_u, scale_y = np.abs(u).max(), np.abs(y).max()
    chosen = (
        {"order_selection": True, "info_criteria": terms, "n_info_values": N_CANDIDATES}
        if terms == "bic"
        else {"order_selection": False, "n_terms": int(terms)}
    )
    began = time.process_time()
    model = FROLS(ylag=n_y, xlag=n_x, basis_function=Polynomial(degree=DEGREE), estimator=LeastSquares(), **chosen)
    model.fit(X=u[1:, None] / scale_u, y=y[:-1, None] / scale_y)
    seconds = time.process_time() - began

    simulated = {}
    for test in data["tests"]:
        y_init = data[f"y_init_{test}"]
        first = len(y_init) - max(n_y, n_x)  # the run needs the last of the outputs it may use
        early = np.append(data[f"u_{test}"][1:], 0.0)  # the appended input is never used
        run = model.predict(X=early[first:, None] / scale_u, y=y_init[first:, None] / scale_y)
        simulated[f"y_{test}"] = np.concatenate([y_init[:first], scale_y * run.ravel()])
    np.savez(out_path, n_parameters=model.theta.size, seconds=seconds, **simulated)


if __name__ == "__main__":
    main(*sys.argv[1:])
