#!/bin/sh
# release/sign.sh KEY [FOLDER]: looks whether each file is what SHA256SUMS says, that none is missing
# from it, and signs it with a key of ssh; then checks the signature as a user would.
set -eu
key=$(realpath -- "$1")
cd "${2:-$(dirname "$0")/../dist}"
sha256sum --check --strict --quiet SHA256SUMS
for name in *; do
    case $name in
    SHA256SUMS | SHA256SUMS.sig | allowed_signers) ;;
    *) cut -c 67- SHA256SUMS | grep -qxF -- "$name" || {
        echo "release: $name is not in SHA256SUMS" >&2
        exit 1
    } ;;
    esac
done
rm -f SHA256SUMS.sig
ssh-keygen -q -Y sign -f "$key" -n rdmadiag-release SHA256SUMS
printf 'release@rdmadiag namespaces="rdmadiag-release" %s\n' "$(ssh-keygen -y -f "$key")" >allowed_signers
ssh-keygen -Y verify -f allowed_signers -I release@rdmadiag -n rdmadiag-release \
    -s SHA256SUMS.sig <SHA256SUMS
