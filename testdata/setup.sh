#!/bin/bash
# Installs what the tests need on a bare Debian machine; does nothing the second
# time. Needs root and the machine's package mirrors. With "box" it installs what the
# box needs too.
set -euo pipefail
need=()
command -v gcc >/dev/null || need+=(gcc libc6-dev)
command -v mmdebstrap >/dev/null || need+=(mmdebstrap)
command -v nsenter >/dev/null || need+=(util-linux)
command -v ip >/dev/null || need+=(iproute2)
command -v setsid >/dev/null || need+=(util-linux)
# Without recommended packages Chromium is 100 MB to fetch. Its fonts are what text is drawn with.
command -v chromium-headless-shell >/dev/null || command -v chromium >/dev/null || need+=(chromium-headless-shell)
[ -d /usr/share/fonts/truetype/dejavu ] || need+=(fonts-dejavu-core)
if [ "${1:-}" = box ]; then
  command -v runc >/dev/null || need+=(runc)
  command -v iptables >/dev/null || need+=(iptables)
  command -v conntrack >/dev/null || need+=(conntrack)
  command -v aarch64-linux-gnu-gcc >/dev/null || need+=(gcc-aarch64-linux-gnu libc6-dev-arm64-cross)
  command -v qemu-aarch64-static >/dev/null || need+=(qemu-user-static)
  command -v buildah >/dev/null || need+=(buildah)
  command -v systemd-nspawn >/dev/null || need+=(systemd-container)
  [ -x /usr/lib/cni/bridge ] || need+=(containernetworking-plugins)
fi
if [ ${#need[@]} -gt 0 ]; then
  apt-get update -qq
  DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${need[@]}" >/dev/null
fi
