#!/usr/bin/env bash
# build-siw.sh RELEASE >MODULE: siw.ko for Debian's stock kernel, which is configured without it,
# from the same version of Debian's kernel source. linux-headers-RELEASE must be installed.
# Works in a new folder below the one it is started in: 200 MB, and half a minute.
set -euo pipefail
release=$1
exec 3>&1 >&2

area=$(mktemp -d "$PWD/build.XXXXXX")
trap 'rm -rf "$area"' EXIT
cd "$area"
version=$(dpkg-query -W -f '${Version}' "linux-headers-$release")
package=linux-source-$(echo "$release" | cut -d. -f1,2)
apt-get -qq -o APT::Sandbox::User=root download "$package=$version"
dpkg-deb -x ./*.deb unpacked
mkdir tree
tar -C tree --strip-components=1 -xf "unpacked/usr/src/$package.tar.xz" \
    "$package/drivers/infiniband/sw/siw"
make -s -C "/usr/src/linux-headers-$release" "M=$area/tree/drivers/infiniband/sw/siw" \
    CONFIG_RDMA_SIW=m modules
strip -g "tree/drivers/infiniband/sw/siw/siw.ko"
cat tree/drivers/infiniband/sw/siw/siw.ko >&3
