#!/bin/sh
# shellcheck disable=SC2016 # the lines in quotes are for the shell in the root
#
# release/clean_root.sh SUITE: a Debian with Python and nothing of ours (debootstrap, as root), in
# which each way of installation is tried; prints what its first command says. Needs dist/, and for
# the Debian package one in build/deb that was built on that Debian. ROOTS: where roots are kept.
# ONLY: those ways that have these words in their names.
set -eu
cd "$(dirname "$0")/.."
suite=$1
BIN=$(cd "${BIN:-.venv/bin}" && pwd)
root=${ROOTS:-build/roots}/$suite
if [ ! -e "$root/ready" ]; then
    mkdir -p "$root"
    debootstrap --variant=minbase --include=ca-certificates,python3,python3-venv "$suite" "$root" \
        >"$root.log"
    touch "$root/ready"
fi

# A mount namespace of its own: what is mounted is gone when this ends, and the root is a copy in
# memory, so that no way finds what another left.
if [ "${1-}" != "${IN_NAMESPACE-}" ]; then
    IN_NAMESPACE=$suite exec unshare --mount --propagation private sh "$0" "$suite"
fi
inside=$(mktemp -d)
failed=0
open_root() {
    printf '\n=== %s: %s\n' "$suite" "$name"
    mount -t tmpfs -o mode=755 rdmadiag-changes "$inside"
    mkdir "$inside/upper" "$inside/work" "$inside/root"
    mount -t overlay -o "lowerdir=$root,upperdir=$inside/upper,workdir=$inside/work" overlay \
        "$inside/root"
    for each in proc sys dev; do mount --rbind "/$each" "$inside/root/$each"; done
    mkdir -p "$inside/root/given"
    mount --bind dist "$inside/root/given"
    if [ -d build/deb ]; then
        mkdir -p "$inside/root/deb"
        mount --bind build/deb "$inside/root/deb"
    fi
    # Registries behind a proxy of this network's own: its certificates, and its resolver.
    mount --bind /etc/ssl/certs "$inside/root/etc/ssl/certs"
    cp -L /etc/resolv.conf "$inside/root/etc/resolv.conf"
}
close_root() {
    umount -R "$inside/root"
    umount "$inside"
}
wanted() {
    case $1 in *"${ONLY-}"*) ;; *) return 1 ;; esac
}
way() {
    name=$1
    shift
    wanted "$name" || return 0
    open_root
    if ! env -i PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LANG=C.UTF-8 \
        SSL_CERT_FILE=/etc/ssl/certs/ca-certificates.crt PIP_CERT=/etc/ssl/certs/ca-certificates.crt \
        PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_ROOT_USER_ACTION=ignore DEBIAN_FRONTEND=noninteractive \
        chroot "$inside/root" sh -euc "$*"; then
        echo "=== FAILED: $suite: $name"
        failed=1
    fi
    close_root
}
SHOWN='
    rdmadiag --version | head -n 1
    rdmadiag preflight --sample roce-healthy --quiet
    rdmadiag deploy --path slurm/prolog.sh
    echo "$(ls "$(dirname "$(rdmadiag deploy --path)")"/verbs/_loop.so "$(dirname "$(rdmadiag deploy --path)")"/sieve/_sieve.so 2>/dev/null | wc -l) compiled parts"
    code=0; rdmadiag preflight --quiet || code=$?; echo "exit code here, without an RDMA device: $code"'

way "the wheel for all, in an environment, no compiler" '
    python3 --version
    if command -v cc; then exit 1; fi
    python3 -m venv /opt/rdmadiag
    /opt/rdmadiag/bin/pip install -q /given/rdmadiag-*-py3-none-any.whl
    ln -s /opt/rdmadiag/bin/rdmadiag /usr/local/bin/rdmadiag
    ls /opt/rdmadiag/share/man/man1/rdmadiag.1 /opt/rdmadiag/share/*/*completions/* /opt/rdmadiag/share/zsh/site-functions/*'"$SHOWN"
way "the wheel of this platform, which pip prefers to the other" '
    python3 -m venv /opt/rdmadiag
    /opt/rdmadiag/bin/pip install -q --find-links /given "rdmadiag[fleet]"
    ln -s /opt/rdmadiag/bin/rdmadiag /usr/local/bin/rdmadiag
    rdmadiag fleet merge --help | head -n 1'"$SHOWN"
way "the source archive, no compiler" '
    python3 -m venv /opt/rdmadiag
    /opt/rdmadiag/bin/pip install -q /given/rdmadiag-*.tar.gz
    ln -s /opt/rdmadiag/bin/rdmadiag /usr/local/bin/rdmadiag'"$SHOWN"
way "pipx install --global" '
    python3 -m venv /opt/tools
    /opt/tools/bin/pip install -q pipx
    /opt/tools/bin/pipx --version
    /opt/tools/bin/pipx install --global /given/rdmadiag-*-manylinux*.whl
    command -v rdmadiag
    ls /usr/local/share/man/man1/rdmadiag.1'"$SHOWN"
way "uvx" '
    python3 -m venv /opt/tools
    /opt/tools/bin/pip install -q uv
    rdmadiag() { /opt/tools/bin/uvx --quiet --from "$(ls /given/rdmadiag-*-manylinux*.whl)" rdmadiag "$@"; }'"$SHOWN"
way "the file for hosts without pip" '
    rdmadiag() { env -i python3 /given/rdmadiag-*.pyz "$@"; }'"$SHOWN"
# What `fleet run --copy` sends: from here into the root, whose Python has neither pip nor modules.
name="fleet run --copy"
if wanted "$name"; then
    open_root
    version=$(chroot "$inside/root" python3 -c 'import sys; print("%d.%d" % sys.version_info[:2])')
    "$BIN/python" -m pip download --quiet --no-deps --only-binary=:all: --python-version "$version" \
        --dest "$inside/wheels" "pydantic-core==$("$BIN/python" -c 'import pydantic_core as p; print(p.__version__)')"
    code=0
    "$BIN/rdmadiag" fleet run --nodes root --via "exec:chroot $inside/%h" --copy --wheels "$inside/wheels" \
        -- preflight || code=$?
    echo "exit code: $code (3: no RDMA device there)"
    [ "$code" = 3 ] || failed=1
    close_root
fi
if [ "$(cat build/deb/suite 2>/dev/null)" = "$suite" ]; then
    way "the Debian package" '
        apt-get update -qq
        apt-get install -qq --no-install-recommends /deb/rdmadiag_*.deb bash-completion >/dev/null
        command -v rdmadiag
        ls /usr/share/man/man1/rdmadiag.1.gz /usr/lib/systemd/system/rdmadiag* /usr/share/rdmadiag/deploy
        bash -ic ". /usr/share/bash-completion/completions/rdmadiag; COMP_WORDS=(rdmadiag pref); COMP_CWORD=1; _rdmadiag_completion rdmadiag; echo completes: \${COMPREPLY[*]}" 2>/dev/null'"$SHOWN"'
        apt-get purge -qq rdmadiag >/dev/null
        ! find / -xdev -path /proc -prune -o -path /deb -prune -o -path /given -prune -o -name "*rdmadiag*" -print | grep -v /var/lib/ | grep . '
fi
rmdir "$inside"
exit $failed
