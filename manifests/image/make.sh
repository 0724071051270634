#!/bin/bash
# make.sh image|packages [ARCH,...] builds for the architectures that are named. If none is named, it builds for those that this
# machine has compilers for, and says which is left out. make.sh release writes all parts of a release, for both architectures, from
# a clean tree. It does not begin if a tool or a compiler is missing.
set -euo pipefail
cd "$(dirname "$0")"
need=../../testdata/need.sh
tools=(go git) flags=() parts=("$1") given=${2:-}
case $1 in
  image) tools+=(apt-get mmdebstrap) ;;
  release) tools+=(apt-get mmdebstrap) given=amd64,arm64 flags=(-fresh -out bin/release) parts=(image packages programs chart manifests sums) ;;
esac
compiler() {
  case $1 in
    amd64) echo x86_64-linux-gnu-gcc ;;
    arm64) echo aarch64-linux-gnu-gcc ;;
    *) echo "ARCH=$1: want amd64, arm64, or both with a comma" >&2 && exit 1 ;;
  esac
}
archs=() left=
for arch in $(tr , ' ' <<<"${given:-amd64 arm64}"); do
  cc=$(compiler "$arch")
  if [ -z "$given" ] && [ "$cc" != "$(uname -m)-linux-gnu-gcc" ] && ! said=$($need "$arch is left out" "$cc" 2>&1); then
    left=$said
    continue
  fi
  archs+=("$arch")
  tools+=("$cc")
done
$need "make $1" "${tools[@]}"
if [ "$1" = release ]; then
  status=$(git status --porcelain --ignored) changed=
  while IFS= read -r line; do # what git ignores would get into the archive of manifests
    [[ -z $line || ( $line == '!!'* && $line != '!! manifests/'* ) ]] || changed+=$line$'\n'
  done <<<"$status"
  [ -z "$changed" ] || { printf 'make release: these files differ from the commit. Commit them, or put them aside:\n%s' "$changed" >&2 && exit 1; }
fi
[ -z "$left" ] || echo "$left"
"${GO:-go}" run . "${flags[@]}" -arch "$(IFS=, && echo "${archs[*]}")" "${parts[@]}"
[ -z "$left" ] || echo "$left"
