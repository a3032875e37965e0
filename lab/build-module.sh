#!/usr/bin/env bash
# build-module.sh PACKAGE=VERSION CONFIG FOLDER >MODULE: the module of this folder for the User
# Mode Linux kernel that was built from this version of Debian's source with these settings.
# Where apt does not know the version, Debian's newer suites are asked, with lists of their own.
# Works in a new folder below the one it is started in: 2 GB, and a minute or two.
set -euo pipefail
package=$1
config=$(realpath "$2")
module=$(realpath "$3")
exec 3>&1 >&2

area=$(mktemp -d "$PWD/build.XXXXXX")
trap 'rm -rf "$area"' EXIT
cd "$area"
if ! apt-get -qq -o APT::Sandbox::User=root download "$package"; then
    keys=/usr/share/keyrings/debian-archive-keyring.gpg
    mkdir -p apt/lists/partial apt/cache/archives/partial
    for suite in trixie-backports sid; do
        echo "deb [signed-by=$keys] http://deb.debian.org/debian $suite main"
    done >apt/sources.list
    cat >apt/options <<END
Dir::Etc::SourceList "$area/apt/sources.list";
Dir::Etc::SourceParts "/dev/null";
Dir::State::Lists "$area/apt/lists";
Dir::Cache "$area/apt/cache";
APT::Sandbox::User "root";
END
    export APT_CONFIG=$area/apt/options
    apt-get -qq update
    apt-get -qq download "$package"
fi
dpkg-deb -x ./*.deb unpacked
mkdir tree
tar -C tree --strip-components=1 -xf unpacked/usr/src/linux-source-*.tar.xz
rm -rf unpacked ./*.deb
cp -r "$module" module
cd tree
cp "$config" .config
make -s ARCH=um olddefconfig
make -s ARCH=um -j"$(nproc)" modules_prepare
# There is no Module.symvers: the names are looked up as it is loaded.
make -s ARCH=um M="$area/module" KBUILD_MODPOST_WARN=1 modules
cat "$area"/module/*.ko >&3
