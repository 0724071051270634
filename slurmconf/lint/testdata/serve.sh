# serve.sh ROOT DIR: runs the Slurm of chroot ROOT on configuration directories below DIR, one request a line:
#   ctl NAME        start slurmctld and stop it when it is up
#   show NAME [WORD] the same, and print `scontrol show topology` instead of the log
#   gres NAME       slurmd -G as node n001
#   hosts NAME WHAT scontrol show WHAT, with the list from the file NAME/list
# The answer ends with a line "@end RC". Run it in namespaces of its own: mount, net, uts, ipc, pid.
root=$1 dir=$2
set -e
ulimit -c 0 # some inputs crash slurmctld, which would leave its memory in the chroot
mount --make-rprivate /
mount --bind "$root" "$root"
mkdir -p "$root/rig" "$root/etc/slurm"
mount --bind "$dir" "$root/etc/slurm"
mount -t tmpfs -o mode=755 tmpfs "$root/rig"
mkdir "$root/rig/state" "$root/rig/run" "$root/rig/spool"
mount -t proc proc "$root/proc"
mount -t tmpfs -o mode=755 tmpfs "$root/run"
mount -t tmpfs tmpfs "$root/tmp"
mount -t tmpfs -o mode=755 tmpfs "$root/dev"
for d in "null 3" "zero 5" "random 8" "urandom 9"; do mknod -m666 "$root/dev/${d% *}" c 1 "${d#* }"; done
for i in 0 1 2 3; do mknod -m666 "$root/dev/nvidia$i" c 195 "$i"; done
mkdir "$root/dev/shm"
ln -s /proc/self/fd "$root/dev/fd"
echo '127.0.0.1 localhost ctl' >"$dir/hosts"
mount --bind "$dir/hosts" "$root/etc/hosts"
hostname ctl
ip link set lo up
ip addr add 10.255.0.1/32 dev lo
set +e
inroot() { exec chroot "$root" /usr/bin/env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin LC_ALL=C "SLURM_CONF=/etc/slurm/$name/slurm.conf" "$@"; }
echo "@end 0"
while read -r what name arg; do
  rc=0
  case $what in
    ctl|show)
      rm -rf "$root"/rig/state/*
      exec 3< <(inroot slurmctld -D 2>&1)
      pid=$!
      rc=1
      while IFS= read -r -t 90 -u 3 line; do
        [ "$what" = ctl ] && printf '%s\n' "$line"
        case $line in *"Running as primary controller"*) rc=0; break;; esac
      done
      if [ "$what$rc" = show0 ]; then (inroot timeout 60 scontrol show topology $arg 2>&1) </dev/null; rc=$?; fi
      kill -9 "$pid" 2>/dev/null
      wait "$pid" 2>/dev/null
      exec 3<&-;;
    gres) (inroot timeout -s KILL 60 slurmd -N n001 -G 2>&1) </dev/null; rc=$?;;
    hosts) { (inroot timeout -s KILL 20 scontrol show "$arg" "$(cat "$dir/$name/list")" 2>&1) </dev/null; rc=$?; } 2>/dev/null;; # bash tells of crashes
  esac
  echo "@end $rc"
done
