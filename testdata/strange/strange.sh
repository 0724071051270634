#!/bin/bash
# usage: strange.sh [--reads] COMMAND...
#
# Runs a command, such as the tests, on a machine that seems to be a GPU node of another
# site: /run/quoin, DCGM Exporter's job mapping, /etc/quoin, /etc/slurm and more are there,
# with strange content. They are read-only, and the content must be the same afterwards.
# Nothing else below /etc, /run, /var/lib and /var/spool may be written either. With --reads
# the strange files are writable, and must not even have been read.
#
# All of it is mounted in a mount namespace of its own: the machine does not change. It
# needs root.
set -euo pipefail

if [ "${QUOIN_STRANGE:-}" != inside ]; then
	[ "${1:-}" != "" ] || { sed -n '2,3s/^# \{0,1\}//p' "$0" >&2; exit 2; }
	QUOIN_STRANGE=inside exec unshare --mount --propagation private -- bash "$0" "$@"
fi
unset QUOIN_STRANGE
reads=
if [ "$1" = --reads ]; then
	reads=yes
	shift
fi

# The mounts of the script itself are below this folder, which is a file system of the
# namespace.
own=$(mktemp -d)
trap 'umount -l "$own"; rmdir "$own"' EXIT
mount -t tmpfs -o mode=755 strange "$own"

# cover DIR lets folders be made below DIR that the machine does not get. What is mounted
# below DIR stays.
cover() {
	local at=$own$1 below
	mkdir -p "$at/old" "$at/new" "$at/work"
	mount --rbind "$1" "$at/old"
	mount -t overlay -o "lowerdir=$1,upperdir=$at/new,workdir=$at/work" strange "$1"
	while read -r below; do
		if [ -e "$1${below#"$at/old"}" ]; then
			mount --rbind "$below" "$1${below#"$at/old"}"
		fi
	done < <(awk -v in_="$at/old/" 'index($5, in_) == 1 { print $5 }' /proc/self/mountinfo)
}

# strange DIR makes a folder with a file system of its own, which notes each reading.
places=()
strange() {
	mkdir -p "$1"
	mount -t tmpfs -o strictatime,mode=755 strange "$1"
	places+=("$1")
}

for dir in /etc /run /var/lib /var/spool; do cover "$dir"; done
for dir in /run/quoin /run/slurm /run/dbus /run/systemd /var/lib/dcgm-exporter/job-mapping /var/spool/slurmd /etc/quoin /etc/slurm /etc/nvidia-imex; do
	strange "$dir"
done
mkdir /run/quoin/{jobs,use,releases,summaries}
cat >/run/quoin/inventory.json <<'END'
{"apiVersion": "quoin.dev/v1alpha1", "kind": "Inventory", "node": "n1", "bootID": "strange", "entries": [
 {"gresIndex": 0, "device": "/dev/nvidia7", "exporterID": "7", "uuid": "GPU-57a46e00-0000-0000-0000-000000000007"}]}
END
echo '{"apiVersion": "quoin.dev/v1alpha1", "kind": "Gate", "node": "n1", "ready": true, "reason": "Strange"}' >/run/quoin/gate.json
echo '{"apiVersion": "quoin.dev/v1alpha1", "kind": "HookConfig", "mappingDir": "/var/lib/dcgm-exporter/job-mapping"}' >/run/quoin/hook.json
echo '{"apiVersion": "quoin.dev/v1alpha1", "kind": "JobRecord", "jobID": "7", "user": "strange", "node": "n1", "gpus": ["0"], "mappingDir": "/var/lib/dcgm-exporter/job-mapping"}' >/run/quoin/jobs/7.json
for gpu in 0 1 2 3 4 5 6 7; do echo "9$gpu" >/var/lib/dcgm-exporter/job-mapping/$gpu; done
cp /run/quoin/inventory.json /var/lib/dcgm-exporter/job-mapping/.quoin-inventory.json
echo 'strange: {unknown: key}' >/etc/quoin/quoin.yaml
echo 'Strange nonsense' | tee /etc/slurm/{slurm,gres,topology,cgroup}.conf /run/slurm/slurm.conf >/etc/nvidia-imex/config.cfg
echo strange >/etc/nvidia-imex/nodes_config.cfg
touch /run/dbus/system_bus_socket /run/systemd/private /run/systemd/notify

# content prints what is in the strange folders. written prints what has changed elsewhere in
# the folders that are covered. touched prints what was read, if that is to be seen.
content() {
	find "${places[@]}" -printf '%p %y %m %s %T@\n' | LC_ALL=C sort
	find "${places[@]}" -type f -exec sha256sum {} + | LC_ALL=C sort
}
written() { find "$own"/{etc,run,var/lib,var/spool}/new -printf '%p %y %T@\n' | sed "s:^$own\([^ ]*\)/new:\1:" | LC_ALL=C sort; }
touched() { [ -z "$reads" ] || find "${places[@]}" -newerat @1 | sed 's/$/ was read/'; }

before=$(content; written)
if [ -n "$reads" ]; then
	find "${places[@]}" -depth -exec touch -a -d @0 {} + # what is read after this has another time
else
	for dir in "${places[@]}"; do mount -o remount,bind,ro "$dir"; done
fi
status=0
"$@" || status=$?
if ! diff <(printf '%s\n' "$before") <(touched; content; written) >"$own/diff"; then
	echo "strange.sh: the machine's own files have changed, or were read (< before, > after):" >&2
	cat "$own/diff" >&2
	[ $status -ne 0 ] || status=1
fi
exit $status
