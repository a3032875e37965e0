#!/bin/sh
# The tests that show most in a short time, with the oldest dependencies that pyproject.toml allows
# and with the newest. Needs uv. PYTHON: another one than python3.
set -eu
cd "$(dirname "$0")/.."
PATH="$(cd "${BIN:-.venv/bin}" && pwd):$PATH"
for which in lowest-direct highest; do
    place=build/bounds-$which
    rm -rf "$place"
    uv venv --quiet --python "${PYTHON:-python3}" "$place"
    HATCH_BUILD_NO_HOOKS=true uv pip install --quiet --python "$place" --resolution "$which" '.[fleet]'
    uv pip freeze --python "$place" | grep -v '^rdmadiag' >"$place/constraints"
    echo "--- $which: $(tr "\n" " " <"$place/constraints")"
    uv pip install --quiet --python "$place" --constraints "$place/constraints" --group bounds
    "$place/bin/python" -m pytest -q -p no:cacheprovider -m 'not slow' \
        tests/cli/test_streams.py tests/cli/test_forms.py tests/cli/test_page.py \
        tests/cli/test_completion.py tests/fleet/test_copy.py tests/render tests/schema \
        tests/test_api.py tests/test_report.py tests/sources/test_pyroute2_messages.py
done
