"""Source code in Python and C computes the model and its Jacobian, to the last digits."""

import ast
import ctypes
import io
import re
import shutil
import subprocess
import tokenize

import numpy as np
import pytest

import decouply as dc
from decouply.bases import OWN_BASES
from decouply.write._source import compiled
from tests.write.models import OUTSIDES, every_kind, is_inside, mixed_models, own_basis, points, random_model

GCC, OCTAVE = shutil.which("gcc"), shutil.which("octave")
needs_octave = pytest.mark.skipif(OCTAVE is None, reason="needs octave to run the MATLAB source: install it")
needs_gcc = pytest.mark.skipif(GCC is None, reason="needs gcc to compile the C source: install it")
FLAGS = ["-std=c99", "-pedantic", "-Wall", "-Wextra", "-Werror"]


def of_python(model):
    """Values and Jacobians of the Python source, for rows of an array."""
    space = {}
    exec(model.formula("python"), space)
    return lambda X: (
        np.stack(space["f"](*X.T), axis=1),
        np.moveaxis(np.array([[np.broadcast_to(e, len(X)) for e in row] for row in space["f_jacobian"](*X.T)]), -1, 0),
    )


def of_c(sources, folder, shape=(3, 2)):
    """The same of C sources; what goes in and what comes out share their memory."""
    numbered = (re.sub(r"void f(?=_jacobian\(|\()", f"void f{i}", s) for i, s in enumerate(sources))
    (folder / "all.c").write_text("".join(numbered))
    command = [GCC, *FLAGS, "-shared", "-fPIC", "all.c", "-o", "all.so", "-lm"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    library = ctypes.CDLL(str(folder / "all.so"))
    m, n = shape

    def computed(name, X, size):
        found = []
        for x in X:
            memory = (ctypes.c_double * max(m, size))(*x)
            library[name](memory, memory)
            found.append(memory[:size])
        return np.array(found)

    return [
        lambda X, i=i: (computed(f"f{i}", X, n), computed(f"f{i}_jacobian", X, n * m).reshape(-1, n, m))
        for i in range(len(sources))
    ]


def c_errors(models, folder, X, shape=(3, 2)):
    functions = of_c([model.formula("c") for model in models], folder, shape)
    return [errors(f(X), model, X) for f, model in zip(functions, models, strict=True)]


def errors(found, model, X):
    """The larger error of values and Jacobians."""
    slopes = np.max(np.abs(found[1] - model.jacobian(X))) / max(np.max(np.abs(model.jacobian(X))), 1e-300)
    return max(error(found[0], model, X), slopes)


def error(values, model, X):
    return np.max(np.abs(values - model(X))) / np.max(np.abs(model(X)))


def test_the_models_of_these_tests_go_inside_and_outside_the_domains():
    for cls in OWN_BASES:
        for model in every_kind(cls):
            assert 0 < np.sum(is_inside(model, points())) < len(points())


@pytest.mark.parametrize("cls", OWN_BASES, ids=lambda cls: cls.__name__)
def test_python_computes_the_model_on_arrays_and_numbers(cls):
    X = points()
    for model in every_kind(cls):
        assert errors(of_python(model)(X), model, X) < 3e-14
        f = compiled(model.formula("python"))
        assert error([f(*x) for x in X[:5].tolist()], model, X[:5]) < 1e-14


def test_python_computes_layers_of_all_bases():
    for model in mixed_models():
        assert errors(of_python(model)(points()), model, points()) < 1e-12


@needs_gcc
@pytest.mark.parametrize("cls", OWN_BASES, ids=lambda cls: cls.__name__)
def test_c_computes_the_model(cls, tmp_path):
    assert max(c_errors(list(every_kind(cls)), tmp_path, points())) < 3e-14


@needs_gcc
def test_c_computes_layers_of_all_bases(tmp_path):
    assert max(c_errors(list(mixed_models()), tmp_path, points())) < 1e-13


@pytest.mark.parametrize("degree", [25, 40, 60])
@pytest.mark.parametrize("cls", [dc.Chebyshev, dc.bases.Bernstein])
def test_high_degrees_lose_no_digits_on_the_domain(cls, degree, tmp_path):
    g = dc.Functions(cls(degree), np.random.default_rng(degree).normal(size=(2, 1 + degree)), domain=(299.0, 302.5))
    model = dc.Decoupling([np.eye(2), np.eye(2)], [g])
    X = np.random.default_rng(0).uniform(299.0, 302.5, (200, 2))
    assert errors(of_python(model)(X), model, X) < 1e-12
    if GCC:
        assert max(c_errors([model], tmp_path, X, (2, 2))) < 1e-12


def of_octave(sources, folder, X, shape=(3, 2)):
    """Values and Jacobians of MATLAB sources, one after the other, by one process."""
    m, n = shape
    for i, source in enumerate(sources):
        (folder / f"f{i}.m").write_text(source.replace("[y, J] = f(x)", f"[y, J] = f{i}(x)", 1))
    X.tofile(folder / "X.bin")
    runs = (f"for x = X, [y, J] = f{i}(x); fwrite(out, [y; J'(:)], 'double'); end" for i in range(len(sources)))
    lines = [f"X = fread(fopen('X.bin'), [{m}, Inf], 'double'); out = fopen('out.bin', 'w');", *runs, "fclose(out);"]
    (folder / "run_all.m").write_text("\n".join(lines))
    done = subprocess.run([OCTAVE, "--no-gui", "--norc", "run_all.m"], cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    found = np.fromfile(folder / "out.bin").reshape(len(sources), len(X), n * (1 + m))
    return [(one[:, :n], one[:, n:].reshape(-1, n, m)) for one in found]


@needs_octave
def test_matlab_computes_the_models_of_all_bases(tmp_path):
    models = [model for cls in OWN_BASES for model in every_kind(cls)] + list(mixed_models())
    X = points(12)
    for model, found in zip(models, of_octave([m.formula("matlab") for m in models], tmp_path, X), strict=True):
        assert errors(found, model, X) < 1e-12


def test_monomials_of_any_degree_can_be_compiled():
    model = dc.Decoupling([[[1.0]], [[1.0]]], [dc.Functions(dc.Monomial(250), np.ones((1, 251)))])
    X = np.linspace(-1.0, 1.0, 9)[:, None]
    assert errors(of_python(model)(X), model, X) < 1e-14


@pytest.mark.parametrize("outside", ["linear", "constant"])
def test_functions_are_right_far_beyond_their_domains(outside, tmp_path):
    """Clipping by sums of absolute values would lose all digits here."""
    model = random_model([(dc.Chebyshev(5), dc.bases.Tanh())], outside)
    X = points() * 1e14
    assert errors(of_python(model)(X), model, X) < 1e-13
    if GCC:
        assert max(c_errors([model], tmp_path, X)) < 1e-13


def test_what_is_not_a_number_stays_so():
    for outside in OUTSIDES:
        f = compiled(random_model([(dc.Chebyshev(3),)], outside).formula("python"))
        assert np.isnan(f(np.nan, 0.0, 0.0)).all()


@needs_octave
def test_what_is_not_a_number_stays_so_in_matlab(tmp_path):
    """The functions max and min of MATLAB would give the other number."""
    sources = [random_model([(dc.Chebyshev(3),)], outside).formula("matlab") for outside in OUTSIDES]
    sources += [random_model([(dc.bases.Saturation(), dc.Spline(3))]).formula("matlab")]
    for values, slopes in of_octave(sources, tmp_path, np.array([[np.nan, 0.0, 0.0]])):
        assert np.isnan(values).all() and np.isnan(slopes).all()


@pytest.mark.parametrize("outside", OUTSIDES)
def test_slopes_at_the_ends_of_domains_are_those_of_the_model(outside, tmp_path):
    C = [[0.3, 1.0, -0.5, 0.2], [0.1, -1.0, 2.0, 0.7]]
    model = dc.Decoupling([np.eye(2), [[1.0, 2.0]]], [dc.Functions(dc.Chebyshev(3), C, outside=outside)])
    X = np.array([[-1.0, 1.0], [1.0, -1.0], [1.0, 0.25], [-1.5, 1.0]])
    assert errors(of_python(model)(X), model, X) < 1e-14
    if GCC:
        assert max(c_errors([model], tmp_path, X, (2, 1))) < 1e-14


@needs_gcc
def test_sanitizers_find_nothing(tmp_path):
    model = random_model([(dc.Spline(4), dc.bases.Tanh()), (dc.Chebyshev(3),)], "constant", linear=True, offset=True)
    X = points(4)
    main = """
    #include <stdio.h>
    int main(void) {
        static const double X[4][3] = { %s };
        for (int s = 0; s < 4; s++) {
            double y[2], J[6];
            f(X[s], y); f_jacobian(X[s], J);
            for (int i = 0; i < 2; i++) printf("%%.17g ", y[i]);
            for (int i = 0; i < 6; i++) printf("%%.17g ", J[i]);
        }
        return 0;
    }
    """
    rows = ", ".join("{" + ", ".join(map(repr, row)) + "}" for row in X.tolist())
    (tmp_path / "m.c").write_text(model.formula("c") + main % rows)
    command = [GCC, *FLAGS, "-fsanitize=address,undefined", "-fno-sanitize-recover", "m.c", "-o", "m", "-lm"]
    subprocess.run(command, cwd=tmp_path, check=True)
    done = subprocess.run(["./m"], cwd=tmp_path, check=True, capture_output=True, text=True)
    found = np.array(done.stdout.split(), float).reshape(4, 8)
    assert errors((found[:, :2], found[:, 2:].reshape(4, 2, 3)), model, X) < 1e-13


def test_c_computes_one_piece_of_a_spline_alone():
    """In brackets within brackets, which compare the argument as often as a number of pieces can be halved."""
    g = dc.Functions(dc.Spline(16), np.random.default_rng(0).normal(size=(1, 1 + dc.Spline(16).size)))
    (line,) = re.findall(r"double z1 = .*", dc.Decoupling([[[1.0]], [[1.0]]], [g]).formula("c"))
    depths = np.cumsum([(c == "(") - (c == ")") for c in line])
    assert line.count("?") == 17 and max(depths) < 12


IMPORTED = {
    "Trigonometric": "cos, sin",
    **dict.fromkeys(["Tanh", "Sigmoid", "Friction"], "tanh"),
    "Logarithm": "log",
    **dict.fromkeys(["Exponential", "Gaussian"], "exp"),
}


def test_sources_import_only_what_they_need():
    for outside in OUTSIDES:
        for cls in OWN_BASES:
            model = random_model([(own_basis(cls, 2),)], outside)
            needed = IMPORTED.get(cls.__name__)
            source = model.formula("python")
            assert source.startswith(f"from numpy import {needed}\n\ndef f(" if needed else "def f(")
            assert ("#include <math.h>" in model.formula("c")) == (needed is not None or cls is dc.bases.Absolute)


def test_simple_models_have_simple_sources():
    g = dc.Functions(dc.Monomial(2), [[-0.0, 0, 1], [1, 0.5, -2]], domain=[[-1, 1], [300, 302]], outside="extend")
    model = dc.Decoupling([np.eye(2), [[1.0, -1.0]]], [g], linear=[[0.0, 0.2]], offset=[4.0])
    assert model.formula("python").splitlines() == [
        "def f(x1, x2):",
        "    u1 = x1",
        "    u2 = x2",
        "    z1 = u1*u1",
        "    t2 = (u2 - 301.0)/1.0",
        "    z2 = 1.0 + t2*(0.5 + t2*(-2.0))",
        "    y1 = z1 - z2 + 0.2*x2 + 4.0",
        "    return y1,",
        "",
        "",
        "def f_jacobian(x1, x2):",
        "    u1 = x1",
        "    u2 = x2",
        "    g1 = u1 + u1",
        "    t2 = (u2 - 301.0)/1.0",
        "    g2 = 0.5 + t2*(-2.0) + t2*(-2.0)",
        "    a1_1 = g1",
        "    a1_2 = -g2",
        "    J1_1 = a1_1",
        "    J1_2 = a1_2 + 0.2",
        "    return (J1_1, J1_2),",
    ]


def test_constants_are_arrays_where_the_inputs_are():
    zero = dc.Decoupling(
        [[[0.0]], [[0.0], [2.0]]], [dc.Functions(dc.bases.Trigonometric(2), [[3.0, 0.0, 0.0]])], offset=[0.0, 1.0]
    )
    X = np.zeros((4, 1))
    assert errors(of_python(zero)(X), zero, X) == 0.0


def test_inputs_are_kept_until_all_outputs_are_known():
    model = random_model([(dc.Monomial(2),)], linear=True)
    f = compiled(model.formula("python", inputs=["a", "b", "c"], outputs=["b", "a"]))
    assert error(np.stack(f(*points().T), axis=1), model, points()) < 1e-14


def test_names_of_the_model_become_identifiers_and_are_told():
    names = (["a b", "a_b", "lambda"], ["50 %", "tanh"])
    model = random_model([(dc.bases.Tanh(),)], linear=True, names=names)
    source = model.formula("python")
    assert source.splitlines()[:5] == [
        "# coding: utf-8",
        "# a_b: a b",
        "# a_b_: a_b",
        "# lambda_: lambda",
        "# v_50: 50 %",
    ]
    assert "def f(a_b, a_b_, lambda_):" in source and "return v_50, tanh_" in source
    assert errors(of_python(model)(points()), model, points()) < 1e-14
    with pytest.raises(dc.InputError, match="Python names for this, other than f, cos, sin, tanh, exp, log, abs"):
        model.formula("python", inputs=names[0])


HOSTILE = ["*/ int main; /*", "a\n*/", "/*/*/", "*??/", "\\", "%s \x1b[31m", "*\\\n/", "//", "\ud800 \u202e", "x" * 500]


def test_names_of_the_model_never_become_python_code():
    plain = random_model([(dc.Monomial(2),)], linear=True)
    for name in (
        *HOSTILE,
        "a\nopen('x')",
        "\u2028open('x')",
        "f",
        "ｃｏｓ",
        "__debug__",
        "coding: unicode_escape",
        "u1",
        "b1",
    ):
        source = plain.with_names([name, "b", f"{name}!"], ["p", name]).formula("python")
        assert [type(node) for node in ast.parse(source.encode()).body] == 2 * [ast.FunctionDef]
        assert tokenize.detect_encoding(io.BytesIO(source.encode()).readline)[0] == "utf-8"
        assert source.replace("\n", "").isprintable()
        found = np.stack(compiled(source)(*points().T), axis=1)
        assert error(found, plain, points()) < 1e-14


def test_names_stay_in_comments_of_c():
    plain = random_model([(dc.Monomial(2),)])
    code = plain.formula("c").partition("*/")
    for name in HOSTILE:
        source = plain.with_names([name, "b", f"{name}!"], ["p", name]).formula("c")
        assert source.partition("*/")[1:] == code[1:] and source.rindex("/*") == 0
        assert source.replace("\n", "").isprintable() and source.encode()


@needs_gcc
def test_compilers_do_not_stumble_over_names(tmp_path):
    models = [random_model([(dc.Monomial(2),)], names=([name, "b", f"{name}!"], ["p", name])) for name in HOSTILE]
    assert max(c_errors(models, tmp_path, points())) < 3e-14


def test_rounded_sources_are_near_the_model():
    model = random_model([(dc.Chebyshev(4), dc.bases.Trigonometric(2))], "linear", linear=True)
    shift = np.array([5e4, 0.0, 0.0])
    far = model.with_parts(g=[model.g[0].shifted(-model.W[0] @ shift)], linear=None)
    X = points() + shift
    for given, at in ((model, points()), (far, X)):
        f = compiled(given.formula("python", digits=5))
        assert 1e-9 < error(np.stack(f(*at.T), axis=1), given, at) < 1e-3
    assert "\n    u1 = " in model.formula("python", digits=5)


def test_coefficients_that_cannot_be_written_are_refused():
    with np.errstate(over="ignore"):
        model = dc.Decoupling([[[1.0]], [[1.0]]], [dc.Functions(dc.bases.Bernstein(40), np.full((1, 41), 1e300))])
        for kind in ("python", "c", "sympy"):
            with pytest.raises(dc.InputError, match=r"coefficients that can be written as numbers. Got -?inf"):
                model.formula(kind)
