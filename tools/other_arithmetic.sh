#!/usr/bin/env bash
# Run the tests with the arithmetic and the luck of other machines: a test that changes its mind asks for a coincidence.
#     tools/other_arithmetic.sh [arguments of pytest ...]     the whole suite without any, for each variation
#     VARIATIONS="haswell prescott+reversed" tools/other_arithmetic.sh tests/fit
# A variation is one word or several joined by "+":
#     haswell skylakex zen sandybridge prescott    kernels of OpenBLAS, in NumPy and in SciPy
#     no-avx512 no-avx2                            instructions that NumPy, torch and JAX do without
#     two-threads                                  of BLAS; otherwise it has one
#     loaded                                       beside a process that keeps a core busy
#     reversed                                     the last test first
# Words that mean nothing to this processor, or to these packages, are left out. At the end one line for each variation
# says what passed, what failed and what was left out.
set -uo pipefail
cd "$(dirname "$0")/.." || exit 1
python=${PYTHON:-.venv/bin/python}
variations=${VARIATIONS:-prescott+no-avx2+reversed sandybridge+no-avx512+loaded skylakex+two-threads haswell zen}
log=$(mktemp)
busy=
summary=()
failed=0

relax() {
  [ -n "$busy" ] && kill "$busy" && wait "$busy"
  busy=
} 2>/dev/null
ended() {
  relax
  rm -f "$log"
  printf '%s\n' "" "${summary[@]}"
}
trap ended EXIT
trap 'summary+=("interrupted"); exit 130' INT TERM

# The kernels that both copies of OpenBLAS use with these settings; nothing where arithmetic with them ends the process.
kernels() {
  env "$@" "$python" -c '
import numpy, scipy.linalg, threadpoolctl
A = numpy.random.default_rng(0).normal(size=(300, 300))
numpy.linalg.svd(A @ A), scipy.linalg.eigh(A @ A.T), scipy.linalg.qr(A)
print(*sorted({one["architecture"].lower() for one in threadpoolctl.threadpool_info() if "architecture" in one}))'
} 2>/dev/null

# Names, for NumPy, of the instructions that this processor has and that can be switched off: they change with versions.
features() {
  "$python" -c '
import re, sys
from numpy._core._multiarray_umath import __cpu_dispatch__ as names, __cpu_features__ as has
print(*(name for name in names if has[name] and re.match(sys.argv[1], name)))' "$1"
}

# Sets `settings`, `options`, `loaded` and `without`, the words that mean nothing here.
understand() {
  settings=(OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1) options=() loaded= without=()
  local word names used
  for word in ${1//+/ }; do
    case $word in
    haswell | skylakex | zen | sandybridge | prescott)
      used=$(kernels "OPENBLAS_CORETYPE=$word")
      case $word,$used in
      "$word,$word" | prescott,katmai) settings+=("OPENBLAS_CORETYPE=$word") ;; # which is what it calls itself
      *,) without+=("$word (this processor cannot run it)") ;;
      *) without+=("$word (OpenBLAS takes $used instead)") ;;
      esac
      ;;
    no-avx512 | no-avx2)
      names=$(features "$([ "$word" = no-avx2 ] && echo 'AVX|FMA|X86_V[34]' || echo 'AVX512|X86_V4')")
      if [ -n "$names" ]; then
        settings+=("NPY_DISABLE_CPU_FEATURES=$names")
        if [ "$word" = no-avx2 ]; then
          settings+=(ATEN_CPU_CAPABILITY=default MKL_CBWR=COMPATIBLE XLA_FLAGS=--xla_cpu_max_isa=SSE4_2)
        else
          settings+=(ATEN_CPU_CAPABILITY=avx2 MKL_CBWR=AVX2 XLA_FLAGS=--xla_cpu_max_isa=AVX2)
        fi
      else
        without+=("$word (NumPy uses none of these here)")
      fi
      ;;
    two-threads) settings+=(OMP_NUM_THREADS=2 OPENBLAS_NUM_THREADS=2) ;;
    loaded) loaded=yes ;;
    reversed) options+=(-p tests.backwards) ;;
    *)
      echo "No such variation: $word. The beginning of $0 has the list." >&2
      exit 2
      ;;
    esac
  done
}

for variation in $variations; do
  understand "$variation"
  left_out=$(printf ', without %s' "${without[@]}")
  [ ${#without[@]} -eq 0 ] && left_out=
  joints=${variation//[^+]/}
  if [ ${#without[@]} -gt ${#joints} ]; then # nothing is left of it
    summary+=("$variation: not run$left_out")
    continue
  fi
  echo "$variation: ${settings[*]}"
  [ -n "$loaded" ] && { while :; do :; done & } && busy=$!
  env "${settings[@]}" "$python" -m pytest -p no:cacheprovider "${options[@]}" "$@" 2>&1 | tee "$log"
  status=${PIPESTATUS[0]}
  relax
  if [ "$status" -eq 0 ]; then
    summary+=("$variation: passed$left_out")
  else
    names=$(sed -nE 's/^(FAILED|ERROR) ([^ ]+).*/\2/p' "$log" | sort -u | tr '\n' ' ')
    summary+=("$variation: FAILED$left_out: ${names:-pytest ended with status $status}")
    failed=1
  fi
done
exit $failed
