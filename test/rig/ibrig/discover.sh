# discover.sh TREE DIR NODES SWITCHES PORTS HOST...: starts ibsim on DIR/net, and runs ibnetdiscover at each
# of the hosts. It is the first process of namespaces of its own: ibsim listens on abstract sockets,
# which belong to a network namespace, and ends with this script.
set -eu
tree=$1 dir=$2 nodes=$3 switches=$4 ports=$5
shift 5
"$tree/usr/bin/ibsim" -s -n -N "$nodes" -S "$switches" -P "$ports" "$dir/net" >"$dir/ibsim.log" 2>&1 &
until grep -q '@sim:ctl' /proc/net/unix; do # a client that comes earlier sleeps for two seconds
  kill -0 $! || { tail -n 5 "$dir/ibsim.log" >&2; exit 1; }
  sleep 0.02
done
i=0
for SIM_HOST in "$@"; do
  export SIM_HOST
  LD_PRELOAD=$(echo "$tree"/usr/lib/*/umad2sim/libumad2sim.so) "$tree/usr/sbin/ibnetdiscover" >"$dir/$i" || { tail -n 20 "$dir/ibsim.log" >&2; exit 1; }
  i=$((i + 1))
done
