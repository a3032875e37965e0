#!/bin/sh
# The Debian package of this tree, for this Debian and its Python: build/deb/*.deb, and lintian.
# Needs dpkg-dev, debhelper, dh-python, python3-pip, lintian; pip fetches debian/python-modules.txt.
set -eu
cd "$(dirname "$0")/.."
version=$(dpkg-parsechangelog -S Version)
rm -rf build/deb
mkdir -p "build/deb/rdmadiag-$version"
git ls-files -z --cached --others --exclude-standard | tar --null -T - -c |
    tar -x -C "build/deb/rdmadiag-$version"
cd "build/deb/rdmadiag-$version"
PATH=/usr/bin:/bin:/usr/sbin:/sbin # Debian's Python, and not one of an environment
dpkg-buildpackage -b -us -uc
cd ..
lintian --fail-on error,warning --tag-display-limit 0 -- *.changes
# shellcheck disable=SC1091 # this Debian's own
(. /etc/os-release && echo "${VERSION_CODENAME-}") >suite # for release/clean_root.sh
ls -- *.deb
