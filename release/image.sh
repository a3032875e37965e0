#!/bin/sh
# release/image.sh BASE: builds the image with buildah (as root, without a daemon or namespaces of
# users), BASE instead of docker.io's Python; `root:FOLDER` is a base made of a Debian's root with
# Python (release/clean_root.sh makes one). Runs its first command and its probe's, as nobody.
set -eu
cd "$(dirname "$0")/.."
base=$1
export STORAGE_DRIVER="${STORAGE_DRIVER:-vfs}" BUILDAH_ISOLATION=chroot
case $base in
root:*)
    made=$(buildah from scratch)
    mounted=$(buildah mount "$made")
    tar -C "${base#root:}" --one-file-system -c . | tar -C "$mounted" -x
    # Certificates and settings of this network's own proxy, where it has one.
    cp -L /etc/ssl/certs/ca-certificates.crt "$mounted/etc/ssl/certs/ca-certificates.crt"
    buildah umount "$made" >/dev/null
    buildah config --env PIP_CERT=/etc/ssl/certs/ca-certificates.crt \
        --env PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin "$made"
    base=localhost/rdmadiag-base
    buildah commit --quiet --rm "$made" "$base" >/dev/null
    ;;
esac
file=rdmadiag/deploy/kubernetes/Containerfile
buildah bud --quiet --build-arg "BASE=$base" --file "$file" --tag localhost/rdmadiag .
buildah images localhost/rdmadiag
run=$(buildah from --pull-never localhost/rdmadiag)
trap 'buildah rm "$run" >/dev/null' EXIT
inside() {
    printf '$ %s\n' "$*"
    buildah run --user 65534:65534 "$run" -- "$@" || echo "exit code $?"
}
inside id -u
inside rdmadiag --version
inside rdmadiag preflight --sample roce-healthy --quiet
inside rdmadiag preflight --profile k8s --quiet --timeout 20
