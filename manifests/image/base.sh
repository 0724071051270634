#!/bin/sh
# base.sh ARCH TO writes what the image has beside Quoin's programs into TO: a folder, or a tar file if its name ends so. Beside it,
# TO.packages lists the packages as NAME_VERSION_ARCH.deb. They are the C library, libz, and the folders of a Debian, and no shell.
# Nothing is left in TO of the machine that builds it.
#
# libz and an empty /var/log are there for NVIDIA's nvidia-imex-ctl, which the container gets from the machine: that program is linked
# with libz, and it refuses the configuration of a service whose log would be in a folder that is not there.
set -eu
# Programs that are built here need this machine's C library, or a newer one.
. /etc/os-release
: "${VERSION_CODENAME:?is not in /etc/os-release: build on Debian, or use the Dockerfile}"
mirror=$(apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' | head -n 1)
# mmdebstrap runs no --customize-hook with this variant.
exec mmdebstrap --quiet --variant=extract --architectures="$1" --include=libc6,zlib1g,base-files \
  --extract-hook='cd "$1"/var/cache/apt/archives && ls *.deb >'"'$2.packages'" \
  --extract-hook='cd "$1" && rm -rf etc/apt/sources.list etc/hostname etc/resolv.conf var/log/* usr/share/locale usr/lib/*/gconv' \
  "$VERSION_CODENAME" "$2" "$mirror"
