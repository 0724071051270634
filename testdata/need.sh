#!/bin/bash
# need.sh WHO TOOL...        ends with an error if a tool is missing, and names the command that installs it
# need.sh -packages TOOL...  prints the Debian packages of the tools that are missing
#
# Each make target looks for its tools with it before it works for minutes.
set -euo pipefail
cd "$(dirname "$0")/.."

# package prints the Debian packages that have a tool.
package() {
  case $1 in
    gcc | "$(uname -m)"-linux-gnu-gcc) echo gcc libc6-dev ;; # Debian has no cross compiler for the machine's own architecture
    aarch64-linux-gnu-gcc) echo gcc-aarch64-linux-gnu libc6-dev-arm64-cross ;;
    x86_64-linux-gnu-gcc) echo gcc-x86-64-linux-gnu libc6-dev-amd64-cross ;;
    nsenter | setsid | unshare) echo util-linux ;;
    ip) echo iproute2 ;;
    chromium) echo chromium-headless-shell ;; # without recommended packages 100 MB to fetch
    fonts) echo fonts-dejavu-core ;;          # what Chromium draws text with
    qemu-aarch64-static) echo qemu-user-static ;;
    systemd-nspawn) echo systemd-container ;;
    cni) echo containernetworking-plugins ;;
    apt-get) echo apt ;;
    *) echo "$1" ;; # make, git, mmdebstrap, runc, iptables, conntrack, buildah
  esac
}

# there says whether a tool is there.
there() {
  case $1 in
    *gcc) command -v "$1" && "$1" -E -x c -include stdlib.h /dev/null ;; # with the C library's headers
    chromium) command -v chromium-headless-shell || command -v chromium ;;
    fonts) [ -d /usr/share/fonts/truetype/dejavu ] ;;
    cni) [ -x /usr/lib/cni/bridge ] ;;
    *) command -v "$1" ;;
  esac >/dev/null 2>&1
}

who=$1 missing=() packages=() status=0
shift
wrong() { echo "$who: $*" >&2 && status=1; }
install="Install Go $(awk '$1 == "go" { print $2; exit }' go.mod) or newer: https://go.dev/doc/install"
for tool in "$@"; do
  case $tool in
    go | gofmt)
      [ "$tool" = gofmt ] || tool=${GO:-go}
      if ! there "$tool"; then
        wrong "$tool is missing. $install"
      elif [ "$tool" != gofmt ] && ! said=$("$tool" list -m 2>&1); then # too old, and cannot fetch a newer one
        wrong "${said##*$'\n'}. $install"
      fi
      ;;
    *)
      if ! there "$tool"; then
        missing+=("$tool")
        packages+=($(package "$tool"))
      fi
      ;;
  esac
done
list=$(printf '%s\n' "${packages[@]}" | sort -u | paste -sd' ')
if [ "$who" = -packages ]; then
  echo "$list"
elif [ -n "$list" ] && there apt-get; then
  wrong "missing: ${missing[*]}. To install, as root: apt-get update && apt-get install -y --no-install-recommends $list"
elif [ -n "$list" ]; then
  wrong "missing: ${missing[*]}. Debian has this in the packages $list"
fi
exit $status
