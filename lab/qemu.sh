# Sourced by lab/guest.sh in a guest under QEMU: put what python needs into memory, from LAB_TARS.

finish() { exit "$1"; }

touch "$LAB_OUT/started" # unpacking takes a while
# /tmp is an overlay on 9p, /dev/shm is noexec
mkdir -p "$area"
mount -t tmpfs -o mode=755,size=75% lab "$area"
mkdir "$area/files" "$area/out" "$area/home" "$area/open"
mount --bind "$LAB_OUT" "$area/out" # what follows may hide its own path

while read -r tar; do
    tar -C "$area/files" --no-same-owner -xf "$tar"
done <<<"$LAB_TARS"

# Let an ordinary user reach the interpreter below a closed folder such as /root. The 9p root is
# read-only, so the folder's mode is changed on an overlay that only this guest sees.
open_parents() {
    local parent=$1
    local -a closed=()
    while [ "$parent" != / ]; do
        parent=$(dirname "$parent")
        case $(stat -c %A "$parent") in *x | *t) ;; *) closed=("$parent" "${closed[@]}") ;; esac
    done
    for parent in "${closed[@]}"; do
        local over
        over=$(mktemp -d -p "$area/open")
        mkdir "$over/upper" "$over/work"
        mount -t overlay -o "lowerdir=$parent,upperdir=$over/upper,workdir=$over/work" overlay "$parent"
        chmod a+rx "$parent"
    done
}
while read -r path; do
    open_parents "$path"
    [ -e "$path" ] || mkdir -p "$path"
    mount --bind "$area/files$path" "$path"
done <<<"$LAB_PLACES"
