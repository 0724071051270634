# build.sh ROOT DEBIAN [,PACKAGE...]: makes the chroot ROOT of a Debian release with Slurm and more packages in an empty folder.
# It needs root and a mirror of Debian's packages.
set -u
root=$1 release=$2 more=${3:-}
die() { echo "$*" >&2; exit 1; }
if ! command -v mmdebstrap >/dev/null; then
  apt-get update -qq && apt-get install -y -qq --no-install-recommends mmdebstrap >/dev/null || die "cannot install mmdebstrap"
fi
mirror=${MIRROR:-$( { awk '/^URIs:/{print $2; exit}' /etc/apt/sources.list.d/*.sources; awk '$1=="deb"{for(i=2;i<=NF;i++)if($i ~ /^https?:/){print $i; exit}}' /etc/apt/sources.list; } 2>/dev/null | head -1)}
nice mmdebstrap --variant=apt "--include=slurmctld,slurmd,slurm-client$more" \
  --aptopt='Acquire::Check-Valid-Until "false"' --aptopt='Acquire::Languages "none"' \
  --dpkgopt='path-exclude=/usr/share/man/*' --dpkgopt='path-exclude=/usr/share/doc/*' \
  --dpkgopt='path-exclude=/usr/share/locale/*' "$release" "$root" "$mirror" >&2 || die "cannot build $root"
for user in alice:2001 bob:2002; do # as rig.go has them
  echo "${user%:*}:x:${user#*:}:${user#*:}::/tmp:/bin/bash" >>"$root/etc/passwd"
  echo "${user%:*}:x:${user#*:}:" >>"$root/etc/group"
done
mkdir -p "$root/rig" "$root/etc/slurm" # of mounts
[ -e "$root/etc/hosts" ] || : >"$root/etc/hosts"
