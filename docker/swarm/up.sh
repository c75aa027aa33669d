#!/bin/bash
# up.sh WORKDIR [NODES]   a Docker Swarm of NODES (3) engines, each in network, mount and process namespaces of its own.
# Needs root, dockerd >= 20.10 with containerd and runc, a docker client, iproute2 and util-linux.
# Then: docker -H unix://WORKDIR/1/docker.sock node ls
set -euo pipefail
W=$(mkdir -p "$1" && cd "$1" && pwd)
N=${2:-3}
NET=10.99.77                          # lives only inside the namespaces made here
P=sw$(printf %s "$W" | cksum | cut -c1-6)   # prefix of namespace and cgroup names
echo "$P" > "$W/prefix"

ip netns add "$P-lan"
ip -n "$P-lan" link set lo up
ip -n "$P-lan" link add br0 type bridge
ip -n "$P-lan" link set br0 up

# The first process of each process namespace. When it ends, however it ends, the kernel ends the engine, its containers
# and its mounts.
cat > "$W/node.sh" <<'T'
D=$1 P=$2 i=$3
hostname "node$i"
mount -t tmpfs run /run                       # fixed paths such as /run/containerd are private now
mkdir -p /run/containerd /run/docker
echo "nameserver 127.0.0.1" > /run/resolv.conf   # a pull that cannot succeed fails at once, not after 10 s
mount --bind /run/resolv.conf /etc/resolv.conf
containerd --config "$D/containerd.toml" > "$D/containerd.log" 2>&1 &
for t in $(seq 100); do [ -S /run/containerd/containerd.sock ] && break; sleep 0.1; done
net="--bridge none --iptables=false --ip-masq=false"
[ -n "${PUBLISH:-}" ] && net="--iptables=true"   # with PUBLISH=1, --publish mode=host works
dockerd --data-root "$D/data" --exec-root /run/docker --pidfile /run/docker.pid \
  --host "unix://$D/docker.sock" --containerd /run/containerd/containerd.sock \
  $net --ip6tables=false --userland-proxy=false \
  --cgroup-parent "/$P" --log-driver json-file --config-file "$D/daemon.json" > "$D/dockerd.log" 2>&1 &
wait -n                                       # one that ends takes all along
T

for i in $(seq "$N"); do
  D=$W/$i
  mkdir -p "$D"
  ip netns add "$P-$i"
  ip -n "$P-$i" link set lo up
  ip -n "$P-$i" link add eth0 type veth peer name "port$i" netns "$P-lan"
  ip -n "$P-lan" link set "port$i" master br0 up
  ip -n "$P-$i" addr add "$NET.1$i/24" dev eth0
  ip -n "$P-$i" link set eth0 up
  ip -n "$P-$i" route add default via "$NET.1$i"   # no way out; the engine only wants to find a default interface
  cat > "$D/containerd.toml" <<T
version = 2
root = "$D/containerd"
state = "/run/containerd"
oom_score = 0
disabled_plugins = ["io.containerd.grpc.v1.cri"]
[grpc]
address = "/run/containerd/containerd.sock"
T
  echo '{}' > "$D/daemon.json"
  # nsenter and not "ip netns exec", which would hide /sys/fs/cgroup
  setsid nsenter --net="/run/netns/$P-$i" \
    unshare --mount --propagation private --pid --fork --mount-proc --kill-child --uts \
    bash "$W/node.sh" "$D" "$P" "$i" < /dev/null > "$D/node.log" 2>&1 &
done

dock() { local i=$1; shift; docker -H "unix://$W/$i/docker.sock" "$@"; }
for i in $(seq "$N"); do
  for t in $(seq 300); do dock "$i" version > /dev/null 2>&1 && break; sleep 0.1; done
  dock "$i" version > /dev/null
done
dock 1 swarm init --advertise-addr "$NET.11" > /dev/null
TOKEN=$(dock 1 swarm join-token -q worker)
for i in $(seq 2 "$N"); do
  dock "$i" swarm join --advertise-addr "$NET.1$i" --token "$TOKEN" "$NET.11:2377" > /dev/null
done
ready() { [ "$(dock 1 node ls --format '{{.Status}}' | grep -c Ready)" = "$N" ]; }
for t in $(seq 100); do ready && break; sleep 0.1; done
ready
dock 1 node ls
