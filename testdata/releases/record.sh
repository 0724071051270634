#!/bin/bash
# record.sh records what this release writes, for the releases after it: cmd/quoin/releases_test.go reads it in all of them. The real
# programs write everything, on simulated machines. A release that is recorded stays as it is: the script does not write over it.
set -euo pipefail
cd "$(dirname "$0")/../.."
work=/tmp/quoin-record
trap '[ -z "${agent:-}" ] || kill "$agent"; rm -rf "$work"' EXIT
mkdir "$work" # a fixed path, because some files name it
make --no-print-directory build
version=$(bin/quoin version -o json | sed -n 's/.*"version": *"\([^"]*\)".*/\1/p')
to=testdata/releases/$version
[ ! -e "$to" ] || { echo "record.sh: $version is recorded already, in $to" >&2 && exit 1; }
mkdir -p "$to/reports"
await() { for _ in $(seq 600); do if "$@"; then return; fi; sleep 0.1; done; echo "record.sh: not within a minute: $*" >&2; exit 1; }

bin/quoin config >"$to/quoin.yaml"
bin/quoin demo day-of-trouble --watch --pause 1ms --store "$work/day" >/dev/null
bin/quoin demo mixed --store "$work/mixed" >/dev/null
bin/quoin demo a100-mig --store "$work/mig" >/dev/null
cp "$work/day/plans/default.json" "$to/plan-blocks.json"
cp "$work/mixed/plans/default.json" "$to/plan-mixed.json"
cp "$work"/mixed/reports/{gb-01,hgx-1}.json "$work/mig/reports/a100-mig.json" "$to/reports/"

mkdir -p "$work"/{store,map,conf-cache,root/proc/sys/kernel/random,root/sys/fs/cgroup,root/sys/class,root/var/spool/slurmd}
cp /proc/sys/kernel/random/boot_id "$work/root/proc/sys/kernel/random/"
echo "GresTypes=gpu" >"$work/conf-cache/slurm.conf"
echo "Name=gpu File=/dev/nvidia[0-3]" >"$work/conf-cache/gres.conf"
bin/quoin agent --simulate gb200-nvl72x4 --node gb200-001 --store "$work/store" --listen '' --log-level error --set agent.runDir="$work/run" --set agent.mappingDir="$work/map" \
  --set agent.hostRoot="$work/root" --times 'sample: 200ms' &
agent=$!
await [ -e "$work/run/hook.json" ]
await [ -e "$work/run/gate.json" ]
hook() {
  env -i SLURM_JOB_ID=4711 SLURM_JOB_GPUS=0,2 SLURM_JOB_USER=alice SLURM_JOB_UID=1000 SLURMD_NODENAME=gb200-001 SLURM_JOB_NODELIST='gb200-[001-002]' \
    SLURM_JOB_NUM_NODES=2 SLURM_JOB_PARTITION=batch SLURM_JOB_ACCOUNT=team SLURM_JOB_QOS=normal SLURM_CLUSTER_NAME=blue SLURM_CONF="$work/conf-cache/slurm.conf" \
    SLURM_JOB_START_TIME=1700000000 SLURM_JOB_END_TIME=1700003600 "$@" --run-dir "$work/run" --mapping-dir "$work/map"
}
hook bin/quoin-hook prolog
await [ -e "$work/run/use/4711.json" ]
cp -r "$work/run" "$to/run"
hook env SLURM_JOB_EXIT_CODE2=0:0 bin/quoin-hook epilog
cp -r "$work/run/ended" "$to/run/"
summarized() { compgen -G "$work/run/summaries/*.json" >/dev/null; }
await summarized # the agent waits some seconds for the last sample
cp -r "$work/run/summaries" "$to/run/"
rm -f "$to/run/lock" "$to/run/agent.json" "$to"/run/calls.log* # of the agent alone
chmod -R u+rwX,go+rX "$to"
go test ./cmd/quoin -run '^TestReleaseFields$' -record
find "$to" -type f | sort
