# neighbours.sh TREE DIR [INTERFACE SWITCH MAC PORT]...: starts lldpd on a node and on its switches, and
# writes what the node's lldpd has been told to DIR/neighbours.json. Each four arguments are a cable.
# It is the first process of mount, network and PID namespaces of its own, which are the node's. Each switch
# has a network namespace. Two cables at one interface of the node meet in a hub.
set -eu
tree=$1 dir=$2
shift 2

# The folder and the user that lldpd is built for.
mount --make-rprivate /
mount -t tmpfs tmpfs /run
mount -t proc proc /proc
mkdir /run/lldpd
for kind in passwd group; do
  { cat /etc/$kind; [ $kind = passwd ] && echo _lldpd:x:65500:65500::/run/lldpd:/bin/false || echo _lldpd:x:65500:; } >/run/$kind
  mount --bind /run/$kind /etc/$kind
done

lldpcli() { "$tree/usr/sbin/lldpcli" -u "/run/$1.socket" "${@:2}"; }
declare -A namespaces # the process that keeps each: of switches, and of hubs by the node's interface
namespace() {
  [ -z "${namespaces[$1]:-}" ] || return 0
  unshare --net sleep infinity &
  namespaces[$1]=$!
  until [ "$(readlink "/proc/$!/ns/net")" != "$(readlink /proc/self/ns/net)" ]; do sleep 0.01; done
}
within() { nsenter --net="/proc/${namespaces[$1]}/ns/net" "${@:2}"; }
# daemon NAME starts an lldpd and waits until it answers. It pauses until resume.
daemon() {
  local enter=()
  [ "$1" = node ] || enter=(within "$1")
  "${enter[@]}" "$tree/usr/sbin/lldpd" -d -p "/run/$1.pid" -u "/run/$1.socket" -O /dev/null -L /bin/true >"$dir/lldpd.$1.log" 2>&1 &
  until [ -S "/run/$1.socket" ]; do
    kill -0 $! || { tail -n 5 "$dir/lldpd.$1.log" >&2; exit 1; }
    sleep 0.02
  done
}

declare -A cables
count=0 switches=()
cable=("$@")
for ((i = 0; i < $#; i += 4)); do cables[${cable[i]}]=$((${cables[${cable[i]}]:-0} + 1)); done
while [ $# -gt 0 ]; do
  interface=$1 switch=$2 mac=$3 port=$4
  shift 4
  [ -n "${namespaces[$switch]:-}" ] || switches+=("$switch")
  namespace "$switch"
  if [ "${cables[$interface]}" = 1 ]; then
    ip link add "$interface" type veth peer name "$port" address "$mac" netns "${namespaces[$switch]}"
  else
    hub=hub-$interface
    if [ -z "${namespaces[$hub]:-}" ]; then
      namespace "$hub"
      within "$hub" ip link add hub type bridge group_fwd_mask 0x4000 # LLDP goes through, as in a hub
      within "$hub" ip link set hub up
      ip link add "$interface" type veth peer name node netns "${namespaces[$hub]}"
      within "$hub" ip link set node master hub up
    fi
    within "$hub" ip link add "to$count" type veth peer name "$port" address "$mac" netns "${namespaces[$switch]}"
    within "$hub" ip link set "to$count" master hub up
  fi
  within "$switch" ip link set "$port" up
  ip link set "$interface" up
  count=$((count + 1))
done
daemon node
lldpcli node resume >>"$dir/lldpcli.log"
for switch in "${switches[@]}"; do
  daemon "$switch"
  lldpcli "$switch" configure system hostname "$switch" >>"$dir/lldpcli.log"
  lldpcli "$switch" configure lldp portidsubtype ifname >>"$dir/lldpcli.log"
  lldpcli "$switch" configure lldp tx-interval 1 >>"$dir/lldpcli.log"
  lldpcli "$switch" resume >>"$dir/lldpcli.log"
done
until
  lldpcli node -f json show neighbors >"$dir/neighbours.json"
  [ "$(grep -c '"rid"' "$dir/neighbours.json")" = $count ]
do sleep 0.1; done
