#!/bin/bash
# slurmrig.sh - run a real Slurm (Debian packages in a chroot) on a config directory.
#
# A rig = mount+pid+net+uts+ipc namespaces around a Debian chroot; loopback only, nothing outside
# is touched.  DIR is bind-mounted read-write on /etc/slurm in the rig: edit files there, then `reconf`.
#
#   slurmrig.sh build [forky|trixie]          make the chroot(s) (needs mmdebstrap; ~20 s, ~120 MB each)
#   slurmrig.sh up   DIR [-r forky|trixie] [-d n001,n[002-004]|all|none] [-v]
#                                             start slurmctld and one slurmd per node in -d (default: none),
#                                             wait until it answers, print `scontrol show topology`;
#                                             -d namespace: no daemon at all
#   slurmrig.sh check DIR [-r REL]            start slurmctld only, say OK / FATAL with the messages, stop; rc 0/1
#                                             (no other rig may be up on DIR)
#   slurmrig.sh sc   DIR ARGS...              scontrol ARGS
#   slurmrig.sh x    DIR CMD ARGS...          run any command as root in the rig (srun, sbatch, sinfo, ...)
#   slurmrig.sh as   DIR USER CMD ARGS...     the same as a user (alice uid 2001, bob 2002 exist)
#   slurmrig.sh slurmd DIR ARGS...            start one more slurmd with these ARGS (e.g. -Z -N d1 --conf "...")
#   slurmrig.sh restd DIR                     start slurmrestd (forky) on the socket DIR/.rig/tmp/restd.sock; slurm.conf must have
#                                             AuthAltTypes=auth/jwt and AuthAltParameters=jwt_key=FILE; `scontrol token` makes a token
#   slurmrig.sh reconf DIR                    scontrol reconfigure, then the new log lines and the topology
#   slurmrig.sh topo DIR                      scontrol show topology
#   slurmrig.sh log  DIR [slurmctld|NODE]     print that daemon's log
#   slurmrig.sh down DIR                      stop everything of this rig (kills the pid namespace's init)
#   slurmrig.sh list                          rigs that are up
#
# In DIR/slurm.conf put `Include /rig/base.conf`: it has all that a rig needs (auth/slurm key, SlurmUser=root,
# paths under /rig, no cgroups, no accounting).  What is left to write: NodeName, PartitionName, GresTypes, Topology*.
# Node lines must say NodeAddr=127.0.0.1 Port=[...] with one port per node for more than one slurmd.
# State, logs, spool: DIR/.rig (wiped at each `up`, unless KEEP=1).  Fake GPUs: /dev/nvidia0..GPUS-1 (GPUS=8) are
# character devices 195:N made by mknod on the rig's private /dev.
# MODEL="NVIDIA H200": fakes /proc/driver/nvidia/gpus/*/information (GPUS of them), which AutoDetect=nvidia reads.
# env: KEEP, GPUS, MODEL, CTLDEBUG, DDEBUG (log levels); SLURMRIG_BASE holds slurm-forky-rest, slurm-trixie
set -u
ulimit -c 0 # some inputs crash a daemon, which would leave its memory in the chroot
BASE=${SLURMRIG_BASE:-${XDG_CACHE_HOME:-$HOME/.cache}/quoin}
rootname() { case $1 in forky) echo slurm-forky-rest;; *) echo "slurm-$1";; esac; } # REL: forky's chroot has slurmrestd too
die() { echo "slurmrig: $*" >&2; exit 2; }
need() { [ -d "$1" ] || die "no directory $1"; DIR=$(cd "$1" && pwd); R=$DIR/.rig; }
# A process that is started costs milliseconds, so files are read by bash, which sets P and ROOT.
find_rig() { read -r P 2>/dev/null <"$R/pid" && read -r ROOT <"$R/root" && kill -0 "$P" 2>/dev/null; }
innamespaces() { # CMD... in the rig's namespaces, with this machine's files
  find_rig || die "rig $DIR is not up"
  nsenter -t "$P" -m -u -i -n -p -- "$@"
}
INENV=(/usr/bin/env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/tmp LC_ALL=C ${SLURMRIG_ENV:-})
inrig() { find_rig || die "rig $DIR is not up"; innamespaces chroot "$ROOT" "${INENV[@]}" "$@"; } # CMD... as root in the rig

build() { # once, whoever else builds at the same time
  mkdir -p "$BASE"
  if ! command -v mmdebstrap >/dev/null; then
    apt-get update -qq && apt-get install -y -qq --no-install-recommends mmdebstrap util-linux iproute2 >/dev/null || die "cannot install mmdebstrap"
  fi
  local rel t mirror more
  mirror=${MIRROR:-$( { awk '/^URIs:/{print $2; exit}' /etc/apt/sources.list.d/*.sources; awk '$1=="deb"{for(i=2;i<=NF;i++)if($i ~ /^https?:/){print $i; exit}}' /etc/apt/sources.list; } 2>/dev/null | head -1)}
  for rel in ${1:-forky trixie}; do
    t=$BASE/$(rootname "$rel") more=
    [ "$rel" = forky ] && more=,slurmrestd,slurm-wlm-jwt-plugin
    (
      flock 9
      [ -x "$t/usr/sbin/slurmctld-wlm" ] && exit 0
      rm -rf "$t.new"
      nice mmdebstrap --variant=apt "--include=slurmctld,slurmd,slurm-client$more" \
        --aptopt='Acquire::Check-Valid-Until "false"' --aptopt='Acquire::Languages "none"' \
        --dpkgopt='path-exclude=/usr/share/man/*' --dpkgopt='path-exclude=/usr/share/doc/*' \
        --dpkgopt='path-exclude=/usr/share/locale/*' "$rel" "$t.new" "$mirror" >&2 || exit 1
      prep "$t.new"
      mv "$t.new" "$t"
    ) 9>"$t.lock" || die "cannot build $t"
  done
}
prep() { # make users and mount points once
  local t=$1
  grep -q ^alice: "$t/etc/passwd" || { echo 'alice:x:2001:2001::/tmp:/bin/bash' >>"$t/etc/passwd"; echo 'alice:x:2001:' >>"$t/etc/group"; }
  grep -q ^bob: "$t/etc/passwd" || { echo 'bob:x:2002:2002::/tmp:/bin/bash' >>"$t/etc/passwd"; echo 'bob:x:2002:' >>"$t/etc/group"; }
  mkdir -p "$t/rig" "$t/etc/slurm"; [ -e "$t/etc/hosts" ] || : >"$t/etc/hosts"
}

base_conf() {
  cat <<E
ClusterName=rig
SlurmctldHost=ctl(127.0.0.1)
SlurmUser=root
SlurmdUser=root
AuthType=auth/slurm
CredType=cred/slurm
StateSaveLocation=/rig/state
SlurmdSpoolDir=/rig/spool/%n
SlurmctldPidFile=/rig/run/slurmctld.pid
SlurmdPidFile=/rig/run/slurmd.%n.pid
SlurmctldLogFile=/rig/log/slurmctld.log
SlurmdLogFile=/rig/log/%n.log
SlurmctldDebug=${CTLDEBUG:-verbose}
SlurmdDebug=${DDEBUG:-verbose}
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
MpiDefault=none
ReturnToService=2
SlurmdTimeout=300
SlurmctldTimeout=30
SlurmdParameters=config_overrides
SchedulerParameters=batch_sched_delay=0,sched_min_interval=0,bf_interval=1
MailProg=/bin/true
E
}

up() {
  local rel=forky nodes="" v="" OPTIND=1 o; shift
  while getopts "r:d:v" o; do case $o in r) rel=$OPTARG;; d) nodes=$OPTARG;; v) v=-v;; *) die "bad option";; esac; done
  local root; root=$BASE/$(rootname "$rel")
  [ -x "$root/usr/sbin/slurmctld-wlm" ] || die "no chroot $root: run $0 build $rel"
  find_rig && die "already up: $0 down $DIR"
  [ "${KEEP:-0}" = 1 ] || rm -rf "$R"
  mkdir -p "$R"/{state,spool,log,run,tmp,dev}; chmod 755 "$R" "$R"/*; chmod 1777 "$R/tmp"
  echo "$root" >"$R/root"
  base_conf >"$R/base.conf"
  echo '127.0.0.1 localhost ctl' >"$R/hosts"
  [ -s "$DIR/slurm.key" ] || head -c 1024 /dev/urandom >"$DIR/slurm.key"; chmod 600 "$DIR/slurm.key"; chown 0:0 "$DIR/slurm.key"
  [ -e "$DIR/cgroup.conf" ] || echo 'CgroupPlugin=disabled' >"$DIR/cgroup.conf"
  cat >"$R/init.sh" <<E
mount --make-rprivate /
mount --bind "$root" "$root"; mount --bind "$DIR" "$root/etc/slurm"; mount --bind "$R" "$root/rig"; mount --bind "$R/hosts" "$root/etc/hosts"
mount -t proc proc "$root/proc"; mount -t sysfs -o ro sysfs "$root/sys" 2>/dev/null
mount -t tmpfs -o mode=755 tmpfs "$root/dev"; mount -t tmpfs -o mode=755 tmpfs "$root/run"; mkdir "$root/run/slurm"; mount --bind "$R/tmp" "$root/tmp"
cd "$root/dev"; mknod -m666 null c 1 3; mknod -m666 zero c 1 5; mknod -m666 random c 1 8; mknod -m666 urandom c 1 9; mknod -m666 full c 1 7; mknod -m666 tty c 5 0
mkdir -m 755 pts shm; mount -t devpts -o newinstance,ptmxmode=0666,mode=620 devpts pts; ln -s pts/ptmx ptmx; mount -t tmpfs tmpfs shm; ln -s /proc/self/fd fd
for i in \$(seq 0 $(( ${GPUS:-8} - 1 ))); do mknod -m666 nvidia\$i c 195 \$i; done; mknod -m666 nvidiactl c 195 255
if [ -n "${MODEL:-}" ]; then mount -t tmpfs tmpfs "$root/proc/driver"; mount -t tmpfs tmpfs "$root/sys/bus"; for i in \$(seq 0 $(( ${GPUS:-8} - 1 ))); do d=\$(printf "$root/proc/driver/nvidia/gpus/0000:%02x:00.0" \$((i*16+15))); mkdir -p \$d
 printf 'Model: \\t\\t %s\\nGPU UUID: \\t GPU-%08d-1111-2222-3333-444444444444\\nBus Type: \\t PCIe\\nDevice Minor: \\t %d\\n' "${MODEL:-}" \$i \$i >\$d/information; l="$root/sys/bus/pci/drivers/nvidia/\${d##*/}"; mkdir -p "\$l"; echo ${CPULIST:-0-1} >"\$l/local_cpulist"; done; fi
hostname ctl; ip link set lo up; ip addr add 10.255.0.1/32 dev lo  # glibc AI_ADDRCONFIG: an address other than 127.0.0.1 must be there
cd /; echo up >"$R/ready"
if [ -n "${RIG_KEEPER:-}" ]; then read -r -u 3 _; exit 0; fi # the test's end of the pipe is closed: this namespace ends with it
trap 'exit 0' TERM; while :; do sleep 3600 & wait \$!; done
E
  mkfifo "$R/ready"; exec 5<>"$R/ready"
  setsid unshare --mount --net --uts --ipc --pid --fork -- bash "$R/init.sh" </dev/null >"$R/log/init.log" 2>&1 5>&- &
  local up=$! i ready=
  for ((i = 0; i < 120; i++)); do read -r -t 1 -u 5 ready && break; kill -0 $up 2>/dev/null || break; done
  [ -n "$ready" ] || die "namespace did not start: $(cat "$R/log/init.log")"
  P=; read -r P _ 2>/dev/null </proc/$up/task/$up/children
  [ -n "$P" ] || P=$(pgrep -P $up | head -1)
  echo "$P" >"$R/pid"
  [ "$nodes" = namespace ] && return 0
  inrig slurmctld $v >"$R/log/ctl.out" 2>&1 </dev/null 5>&-; local rc=$?
  if [ $rc -ne 0 ]; then echo "slurmctld exited $rc"; cat "$R/log/ctl.out" "$R/log/slurmctld.log" 2>/dev/null | grep -iE 'fatal|error|warning' ; return 1; fi
  local is=
  for ((i = 0; i < 1800; i++)); do case $(inrig scontrol ping 2>/dev/null 5>&-) in *UP*) is=up; break;; esac
    inrig bash -c 'for c in /proc/[0-9]*/comm; do read -r n <$c; [ "$n" = slurmctld ] && exit 0; done; exit 1' 2>/dev/null || break
    read -r -t .1 -u 5; done # nobody writes: this waits without a process
  exec 5>&-
  if [ -z "$is" ]; then echo "slurmctld is not up"; grep -iE 'fatal|error|warning' "$R/log/slurmctld.log"; return 1; fi
  case $nodes in ""|none) ;; *)
    [ "$nodes" = all ] && nodes=$(inrig sinfo -h -N -o %N | sort -u | paste -sd,)
    local n; for n in $(inrig scontrol show hostnames "$nodes"); do dmn -N "$n"; done;;
  esac
  [ -n "${RIG_KEEPER:-}" ] || topo # a test asks itself
}
dmn() { # every slurmd has a /run/slurm of its own, as on a node of its own: two that start at once take each other's sack.socket, and one dies of it
  find_rig || die "rig $DIR is not up"
  innamespaces unshare --mount sh -c 'mount -t tmpfs -o mode=755 tmpfs "$0/run/slurm" && exec chroot "$0" "$@"' "$ROOT" "${INENV[@]}" slurmd "$@" >>"$R/log/slurmd.out" 2>&1 </dev/null && return
  local rc=$?; echo "slurmd $*: exit $rc: $(tail -3 "$R/log/slurmd.out")"; return $rc
}
restd() { # slurmrestd runs neither as root nor as SlurmUser
  find_rig || die "rig $DIR is not up"
  innamespaces chroot "$ROOT" "${INENV[@]}" SLURM_JWT=daemon setpriv --reuid nobody --regid nogroup --clear-groups slurmrestd -a rest_auth/jwt unix:/tmp/restd.sock >"$R/log/restd.log" 2>&1 </dev/null &
  for i in $(seq 1200); do [ -S "$R/tmp/restd.sock" ] && return 0; kill -0 $! 2>/dev/null || break; sleep .05; done
  die "slurmrestd is not up: $(cat "$R/log/restd.log")"
}
topo() { inrig scontrol show topology; }
down() { find_rig || { echo "not up"; return 0; }; kill -9 "$P"; for i in $(seq 1200); do kill -0 "$P" 2>/dev/null || break; sleep .05; done; rm -f "$R/pid"; }
check() { # rc 0: slurmctld took the files
  shift; local out rc; out=$(CTLDEBUG=debug up "$DIR" "$@" 2>&1); rc=$?
  if find_rig; then down; fi
  if [ $rc -eq 0 ]; then echo "OK"; echo "$out"; else echo "FATAL"; fi
  cat "$R/log/ctl.out" "$R/log/slurmctld.log" 2>/dev/null | grep -E 'fatal|error:|warning:' | sed 's/^\[[^]]*\] //' | grep -vE "Could not open (node|job|reservation|trigger|part|assoc)|NOTE: Trying backup|can.t stat.*last_config|No last decay|No Assoc usage|No fed_mgr|Configured MailProg|slurmctld log levels" | sort -u
  return $rc
}

cmd=${1:-help}; [ $# -gt 0 ] && shift
case $cmd in
  build) build "$@";;
  up) need "$1"; up "$@";;
  check) need "$1"; check "$@";;
  sc) need "$1"; shift; inrig scontrol "$@";;
  x) need "$1"; shift; inrig "$@";;
  as) need "$1"; shift; u=$1; shift; inrig setpriv --reuid "$u" --regid "$u" --clear-groups env HOME=/tmp USER="$u" "$@";;
  slurmd) need "$1"; shift; dmn "$@";;
  restd) need "$1"; restd;;
  reconf) need "$1"; n=$(wc -l <"$R/log/slurmctld.log"); inrig scontrol reconfigure; rc=$?; sleep .3; tail -n +$((n+1)) "$R/log/slurmctld.log"; topo; exit $rc;;
  topo) need "$1"; topo;;
  log) need "$1"; cat "$R/log/${2:-slurmctld}.log";;
  down) need "$1"; down;;
  list) for p in /proc/[0-9]*; do c=$(cat "$p/cmdline" 2>/dev/null | tr "\0" " "); case $c in "bash "*/.rig/init.sh*) echo "${p#/proc/} $c";; esac; done;;
  *) sed -n '2,/^set -u/p' "$0" | sed '$d'; exit 1;;
esac
