#!/usr/bin/env bash
# Run the core tests with every Python that is named and installed, each in an environment of its own, .venv-3.12 and so on.
# At the end one line for each says what was run and what was not.
#     EXTRAS=test tools/try_pythons.sh "3.11 3.12" arguments of pytest ...
set -uo pipefail
versions=$1
shift

# The command python3.12 or, where it is only a shim of pyenv for a version that is not switched on, what the shim stands for.
find_python() {
  local command="python$1"
  if "$command" -c '' 2>/dev/null; then
    command -v "$command"
  elif command -v pyenv >/dev/null; then
    local version
    version=$(pyenv whence "$command" 2>/dev/null | tail -n 1)
    [ -n "$version" ] && PYENV_VERSION=$version pyenv which "$command" 2>/dev/null
  else
    return 1
  fi
}

summary=()
failed=0
for version in $versions; do
  if ! python=$(find_python "$version"); then
    summary+=("Python $version: not found, not tried")
    continue
  fi
  full=$("$python" -c 'import platform; print(platform.python_version())')
  environment=.venv-$version
  echo "Python $full: installing into $environment ..."
  if ! { [ -x "$environment/bin/pip" ] || "$python" -m venv "$environment"; } ||
    ! PIP_CONSTRAINT=constraints.txt "$environment/bin/pip" install -qq -e ".[$EXTRAS]" onnxruntime; then
    summary+=("Python $full: could not be installed into")
    failed=1
  elif result=$("$environment/bin/pytest" -p no:cacheprovider "$@" | tee /dev/stderr | tail -n 1) && [ -n "$result" ]; then
    summary+=("Python $full: $result")
  else
    summary+=("Python $full: FAILED: $result")
    failed=1
  fi
done
printf '%s\n' "" "${summary[@]}"
exit $failed
