#!/bin/bash
# setup.sh [box] looks whether the tests can run on this machine, or the box too, says what is missing
# before anything takes long, and installs the Debian packages that they need. The second time it does
# next to nothing.
set -euo pipefail
cd "$(dirname "$0")/.."
go=${GO:-go}
tools=(make gcc mmdebstrap nsenter ip setsid chromium fonts zsh)
rigs=(gotestsum etcd helm computedomain computedomain05 kubernetes) # folders of test/rig
# The megabytes of a full cache folder, and of Go's caches after everything is built.
cacheMB=3000 buildMB=8000 moduleMB=2000
runMB=500 # what a run needs when all is built
nodesMB=5000 # the disks of the box's nodes
if [ "${1:-}" = box ]; then
  tools+=(runc iptables conntrack aarch64-linux-gnu-gcc qemu-aarch64-static buildah systemd-nspawn cni)
  rigs+=(kubelet containerd kwok coredns slinky nvidiadra)
  cacheMB=6000 buildMB=10000 moduleMB=3000
fi
cache=${XDG_CACHE_HOME:-${HOME:+$HOME/.cache}}
cache=${cache:-/var/cache}/quoin

wrong=0
say() { echo "setup: $*" >&2 && wrong=1; }
stop() { [ $wrong = 0 ] || exit 1; }

testdata/need.sh setup go || exit 1
[ "$(id -u)" = 0 ] || say "this user is not root, and the tests make namespaces and mounts: run this as root. make short needs no root"
if [ "${1:-}" = box ] && [ "$(stat -fc %T /sys/fs/cgroup)" = cgroup2fs ]; then
  say "this machine has control groups of version 2, and the box runs with version 1 alone (boot with systemd.unified_cgroup_hierarchy=0)"
fi

# What comes from Debian's mirrors.
packages=$(testdata/need.sh -packages "${tools[@]}") debian=()
[ -z "$packages" ] || debian+=("the packages $packages")
[ -d "$cache/slurm-forky-rest" ] && [ -d "$cache/slurm-trixie" ] || debian+=("two releases of Slurm")
[ -d "$cache/debian-prometheus" ] || debian+=(Prometheus)
[ -d "$cache/debian-infiniband" ] || debian+=(ibnetdiscover)
[ -d "$cache/debian-lldp" ] || debian+=(lldpd)
[ -d "$cache/debian-packages" ] || debian+=(rpm)
compgen -G "$cache/box-base-????????????" >/dev/null || debian+=("the base of Quoin's image")
missing=$(printf '%s, ' "${debian[@]}") missing=${missing%, }
if [ -n "$missing" ] && ! command -v apt-get >/dev/null; then
  say "apt-get is missing, and it has to bring $missing: run this on a Debian machine"
fi

# The rigs that are not built. Whether a build is current, only the build itself knows.
unbuilt=()
for rig in "${rigs[@]}"; do
  compgen -G "$cache/rig-$rig-????????????" >/dev/null || unbuilt+=("$rig")
done

declare -A left wanted folders # by disk
# room notes that a folder, which a variable names, needs so many megabytes more.
room() {
  local disk free
  if ! { mkdir -p "$2" && : >"$2/.setup" && rm "$2/.setup"; } 2>/dev/null; then
    say "cannot write in $2: set $1 to a folder that this user can write in"
    return
  fi
  read -r free disk < <(df -m --output=avail,target "$2" | tail -n 1)
  left[$disk]=$free wanted[$disk]=$((${wanted[$disk]:-0} + $3)) folders[$disk]+="${folders[$disk]:+, }$2 ($1)"
}
# growth prints how many megabytes a folder has yet to grow by.
growth() {
  local has
  has=$(du -sm "$1" 2>/dev/null | cut -f 1) || true # it may not be there
  echo $(($2 - ${has:-0} > runMB ? $2 - ${has:-0} : runMB))
}
build=$("$go" env GOCACHE)
if [ -z "$missing" ] && [ ${#unbuilt[@]} = 0 ]; then
  room XDG_CACHE_HOME "$cache" $runMB
  room GOCACHE "$build" $runMB
else
  room XDG_CACHE_HOME "$cache" "$(growth "$cache" $cacheMB)"
  room GOCACHE "$build" "$(growth "$build" $buildMB)"
fi
[ "${1:-}" != box ] || room TMPDIR "${TMPDIR:-/tmp}" $nodesMB

# cached says whether Go's cache has all modules of some packages of a folder.
cached() { (cd "$1" && GOPROXY=off GOFLAGS=-mod=readonly "$go" list -deps "${@:2}" >/dev/null 2>&1); }
programs() { # of a rig
  sed -n 's/^.*_ "\(.*\)"$/\1/p' "test/rig/$1/tools.go" 2>/dev/null || true
  echo tool # those that its go.mod names
}
# whole says whether Go's cache has all modules that the tests need.
whole() {
  local rig
  cached . -test ./... || return
  for rig in "${unbuilt[@]}"; do
    cached "test/rig/$rig" $(programs "$rig") || return
  done
}
modules=$("$go" env GOMODCACHE) lacking=
if [ $wrong = 0 ] && ! whole; then # which needs a build cache
  lacking=1
  room GOMODCACHE "$modules" "$(growth "$modules" $moduleMB)"
fi

for disk in "${!left[@]}"; do
  [ "${left[$disk]}" -ge "${wanted[$disk]}" ] ||
    say "$disk has ${left[$disk]} MB left, and ${wanted[$disk]} MB are needed for ${folders[$disk]}: make room, or name a folder of another disk in that variable"
done
stop

# Something small is fetched before anything large.
empty=$(mktemp -d)
trap 'rm -rf "$empty"' EXIT
if [ -n "$lacking" ]; then
  small=$(awk '$2 ~ /^v[0-9]/ { print $1 "@" $2; exit }' go.mod)
  said=$(cd "$empty" && GOMODCACHE=$empty GOFLAGS= GOSUMDB=off timeout 60 "$go" list -m "$small" 2>&1 || { [ $? != 124 ] || echo "no answer in 60 s"; false; }) ||
    say "cannot reach the Go module proxy (GOPROXY=$("$go" env GOPROXY)), and $modules lacks modules that the tests need: ${said##*$'\n'}"
fi
if [ -n "$missing" ]; then
  quick=(-qq -o Acquire::Retries=1 -o Acquire::http::Timeout=20 -o Acquire::https::Timeout=20)
  apt-get update "${quick[@]}" >/dev/null 2>&1 || true # one of several mirrors can be enough
  said=$(cd "$empty" && apt-get download "${quick[@]}" -o APT::Sandbox::User=root base-files 2>&1) ||
    say "cannot fetch from Debian's mirrors ($(apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' | sort -u | paste -sd' ')), which have to bring $missing: ${said##*$'\n'}"
fi
stop
if [ -n "$packages" ]; then
  DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $packages >/dev/null
fi
