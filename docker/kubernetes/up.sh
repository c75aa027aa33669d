#!/bin/bash
# up.sh WORKDIR BINDIR   a Kubernetes of one node (etcd, API server, controller manager, scheduler, containerd, kubelet)
# in network, mount and process namespaces of its own. BINDIR is what build.sh prints.
# Needs root, containerd, runc, iproute2, util-linux, openssl and curl.
# Then: WORKDIR/kubectl get nodes;  ctr -a WORKDIR/containerd.sock -n k8s.io images import IMAGE.tar
# WORKDIR/kubeconfig-user is for a user without rights, until somebody grants them, in the namespace "stampede".
set -euo pipefail
HERE=$(cd "$(dirname "$0")" && pwd)
W=$(mkdir -p "$1" && cd "$1" && pwd)
B=$(cd "$2" && pwd)
IP=10.99.78.1                         # lives only inside the namespace made here
P=ku$(printf %s "$W" | cksum | cut -c1-6)   # prefix of namespace and cgroup names
echo "$P" > "$W/prefix"
mkdir -p "$W"/{log,kubelet,cni,etcd,certs,manifests} /var/lib/kubelet

ip netns add "$P"
ip -n "$P" link set lo up
ip -n "$P" link add node0 type bridge  # a bridge without ports carries the node's address ("dummy" may be missing)
ip -n "$P" addr add "$IP/24" dev node0
ip -n "$P" link set node0 up
ip -n "$P" route add default via "$IP"

if [ -f /sys/fs/cgroup/cgroup.controllers ]; then # cgroup v2: this branch has not been tried
  mkdir -p "/sys/fs/cgroup/$P"
  for c in cpu cpuset memory pids; do echo "+$c" > /sys/fs/cgroup/cgroup.subtree_control || true; done
else                                   # cgroup v1: the kubelet wants its root in every hierarchy
  for d in /sys/fs/cgroup/*/; do mkdir -p "$d$P"; done
  for f in cpus mems; do cat "/sys/fs/cgroup/cpuset/cpuset.$f" > "/sys/fs/cgroup/cpuset/$P/cpuset.$f"; done
fi

openssl genrsa -out "$W/certs/sa.key" 2048 2> /dev/null
TOKEN=$(openssl rand -hex 16) USERTOKEN=$(openssl rand -hex 16)
printf '%s,admin,1,system:masters\n%s,user,2\n' "$TOKEN" "$USERTOKEN" > "$W/certs/tokens.csv"
config() { cat <<T
apiVersion: v1
kind: Config
clusters: [{name: k, cluster: {server: "https://127.0.0.1:6443", insecure-skip-tls-verify: true}}]
users: [{name: u, user: {token: "$1"}}]
contexts: [{name: c, context: {cluster: k, user: u, namespace: $2}}]
current-context: c
T
}
config "$TOKEN" default > "$W/kubeconfig"
config "$USERTOKEN" stampede > "$W/kubeconfig-user"
printf '#!/bin/sh\nexec nsenter --net=/run/netns/%s %s --kubeconfig %s "$@"\n' "$P" "$B/debian/usr/bin/kubectl" "$W/kubeconfig" > "$W/kubectl"
chmod +x "$W/kubectl"

cat > "$W/containerd.toml" <<T
version = 2
root = "$W/containerd"
state = "/run/containerd"
[grpc]
address = "$W/containerd.sock"
[plugins."io.containerd.grpc.v1.cri"]
sandbox_image = "stampede.test/pause:1"
restrict_oom_score_adj = true          # needed where root lacks CAP_SYS_RESOURCE
[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
runtime_type = "io.containerd.runc.v2"
[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
SystemdCgroup = false
[plugins."io.containerd.grpc.v1.cri".cni]
bin_dir = "$B/debian/usr/lib/cni"
conf_dir = "$W/cni"
T
cat > "$W/cni/10-bridge.conflist" <<T
{"cniVersion": "0.4.0", "name": "pods", "plugins": [{"type": "bridge", "bridge": "pods0", "isGateway": true,
 "ipam": {"type": "host-local", "dataDir": "/run/cni", "ranges": [[{"subnet": "10.99.79.0/24"}]], "routes": [{"dst": "0.0.0.0/0"}]}}]}
T
cat > "$W/kubelet.yaml" <<T
apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
address: $IP
authentication: {anonymous: {enabled: true}, webhook: {enabled: false}}
authorization: {mode: AlwaysAllow}
cgroupDriver: cgroupfs
cgroupRoot: /$P
containerRuntimeEndpoint: unix://$W/containerd.sock
clusterDomain: cluster.local
failSwapOn: false
failCgroupV1: false
enforceNodeAllocatable: [pods]
evictionHard: {memory.available: "0%", nodefs.available: "0%", imagefs.available: "0%", nodefs.inodesFree: "0%"}
imageGCHighThresholdPercent: 100
makeIPTablesUtilChains: false
oomScoreAdj: 0
maxPods: 64
registryPullQPS: 0
serializeImagePulls: false
staticPodPath: $W/manifests
volumePluginDir: $W/kubelet/volumeplugins
T

# The first process of the process namespace. When it ends, however it ends, the kernel ends all the rest.
cat > "$W/node.sh" <<'T'
W=$1 B=$2 IP=$3 TOKEN=$4
hostname node1
mount --make-rshared /
mount -t tmpfs run /run
mkdir -p /run/containerd
echo "nameserver 127.0.0.1" > /run/resolv.conf   # a pull that cannot succeed fails at once
mount --bind /run/resolv.conf /etc/resolv.conf
mount --bind "$W/log" /var/log
mount --bind "$W/kubelet" /var/lib/kubelet
go() { local n=$1; shift; "$@" > "$W/$n.log" 2>&1 & }
go containerd containerd --config "$W/containerd.toml"
go etcd "$B/debian/usr/bin/etcd" --data-dir "$W/etcd" --listen-client-urls http://127.0.0.1:2379 --advertise-client-urls http://127.0.0.1:2379 \
  --listen-peer-urls http://127.0.0.1:2380 --initial-advertise-peer-urls http://127.0.0.1:2380 \
  --initial-cluster default=http://127.0.0.1:2380
go apiserver "$B/kube-apiserver" --etcd-servers http://127.0.0.1:2379 --cert-dir "$W/certs" --secure-port 6443 \
  --advertise-address "$IP" --service-cluster-ip-range 10.99.80.0/24 --authorization-mode Node,RBAC \
  --token-auth-file "$W/certs/tokens.csv" --service-account-issuer https://kubernetes.default.svc \
  --service-account-key-file "$W/certs/sa.key" --service-account-signing-key-file "$W/certs/sa.key" \
  --allow-privileged --kubelet-preferred-address-types InternalIP \
  --enable-admission-plugins OwnerReferencesPermissionEnforcement   # some clusters have it
for t in $(seq 600); do
  curl -fsk -H "Authorization: Bearer $TOKEN" https://127.0.0.1:6443/readyz > /dev/null 2>&1 && break
  [ "$(jobs -pr | wc -l)" = 3 ] || exit 1
  sleep 0.2
done
go controller-manager "$B/kube-controller-manager" --kubeconfig "$W/kubeconfig" --leader-elect=false \
  --service-account-private-key-file "$W/certs/sa.key" --root-ca-file "$W/certs/apiserver.crt" --bind-address 127.0.0.1
go scheduler "$B/kube-scheduler" --kubeconfig "$W/kubeconfig" --leader-elect=false --bind-address 127.0.0.1
go kubelet "$B/kubelet" --kubeconfig "$W/kubeconfig" --config "$W/kubelet.yaml" --node-ip "$IP" --hostname-override node1 \
  --root-dir /var/lib/kubelet
wait -n                                # one that ends takes all along
T

# nsenter and not "ip netns exec", which would hide /sys/fs/cgroup
setsid nsenter --net="/run/netns/$P" unshare --mount --propagation private --pid --fork --mount-proc --kill-child --uts \
  bash "$W/node.sh" "$W" "$B" "$IP" "$TOKEN" < /dev/null > "$W/node.log" 2>&1 &

for t in $(seq 100); do [ -S "$W/containerd.sock" ] && break; sleep 0.1; done
"$HERE/../stampede/image.sh" stampede.test/pause:1 "$B/pause" | ctr -a "$W/containerd.sock" -n k8s.io images import - > /dev/null
ready() { "$W/kubectl" get node node1 -o 'jsonpath={.status.conditions[?(@.type=="Ready")].status}' 2> /dev/null | grep -q True; }
for t in $(seq 600); do
  ready && break
  pgrep -f "bash $W/node.sh" > /dev/null || { tail -n 2 "$W"/*.log >&2; exit 1; }
  sleep 0.2
done
ready
"$W/kubectl" get nodes -o wide
