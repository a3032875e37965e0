#!/bin/sh
# The manifests of rdmadiag/deploy/kubernetes by the schemas of the Kubernetes API, unknown fields
# refused, as they stand and as kustomize puts them together; and hadolint on the Containerfile.
set -eu
cd "$(dirname "$0")/.."
PATH="$(cd "${BIN:-.venv/bin}" && pwd):$PATH"
folder=rdmadiag/deploy/kubernetes
work=build/manifests.yaml
mkdir -p build
hadolint "$folder/Containerfile"
cp "$folder/daemonset.yaml" "$work"
if command -v kubectl >/dev/null; then
    echo --- >>"$work"
    kubectl kustomize "$folder" >>"$work"
else
    echo "release: no kubectl here: kustomization.yaml is not put together" >&2
fi
# An old and a newer version of the API.
for version in 1.28 1.34; do
    kubernetes-validate --strict --kubernetes-version "$version" "$work"
done
