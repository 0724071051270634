#!/bin/bash
# make.sh image|packages [ARCH,...] builds for the architectures that are named. If none is named, it builds for those that this
# machine has compilers for, and says which is left out. It does not begin if a tool or a compiler is missing.
set -euo pipefail
cd "$(dirname "$0")"
need=../../testdata/need.sh
tools=(go git apt-get mmdebstrap) flags=()
if [ "$1" = packages ]; then
  tools=(go git) flags=(-packages)
fi
compiler() {
  case $1 in
    amd64) echo x86_64-linux-gnu-gcc ;;
    arm64) echo aarch64-linux-gnu-gcc ;;
    *) echo "ARCH=$1: want amd64, arm64, or both with a comma" >&2 && exit 1 ;;
  esac
}
archs=() left=
for arch in $(tr , ' ' <<<"${2:-amd64 arm64}"); do
  cc=$(compiler "$arch")
  if [ -z "${2:-}" ] && [ "$cc" != "$(uname -m)-linux-gnu-gcc" ] && ! said=$($need "$arch is left out" "$cc" 2>&1); then
    left=$said
    continue
  fi
  archs+=("$arch")
  tools+=("$cc")
done
$need "make $1" "${tools[@]}"
[ -z "$left" ] || echo "$left"
"${GO:-go}" run . "${flags[@]}" -arch "$(IFS=, && echo "${archs[*]}")"
[ -z "$left" ] || echo "$left"
