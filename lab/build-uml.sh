#!/usr/bin/env bash
# build-uml.sh PACKAGE FRAGMENT >KERNEL: a User Mode Linux kernel from one of Debian's kernel source
# packages, such as linux-source-6.1, with the settings of FRAGMENT (lab/uml.config).
# Works in a new folder below the one it is started in: 2 GB, and some ten minutes on two idle
# cores.
set -euo pipefail
package=$1
fragment=$(realpath "$2")
exec 3>&1 >&2

area=$(mktemp -d "$PWD/build.XXXXXX")
trap 'rm -rf "$area"' EXIT
cd "$area"
apt-get -qq -o APT::Sandbox::User=root download "$package"
dpkg-deb -x ./*.deb unpacked
mkdir tree
tar -C tree --strip-components=1 -xf "unpacked/usr/src/$package.tar.xz"
rm -rf unpacked ./*.deb
cd tree

make -s ARCH=um x86_64_defconfig
cat "$fragment" >>.config
make -s ARCH=um olddefconfig 2>/dev/null # it warns of every line that the fragment changes
while read -r line; do
    case $line in
    '# Where the version has it.') break ;;
    CONFIG_*)
        if ! grep -qxF "$line" .config; then
            echo "$package does not take $line"
            exit 1
        fi
        ;;
    esac
done <"$fragment"

make -s ARCH=um -j"$(nproc)" linux
strip -o ../linux linux
cat ../linux >&3
