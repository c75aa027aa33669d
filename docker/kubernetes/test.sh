#!/bin/bash
# test.sh   runs stampede's generators on a Kubernetes of one node in namespaces of its own, which it brings up and takes
# down (make test-kubernetes), as a user who has the rights of rbac.yaml and no others. Needs root; see up.sh.
set -euo pipefail
cd "$(dirname "$0")/../.."
B=$(docker/kubernetes/build.sh)
W=$(mktemp -d -t stampede-kubernetes-XXXXXX)
trap 'docker/kubernetes/down.sh "$W/kubernetes"; rm -rf "$W"' EXIT
trap 'exit 130' INT TERM
docker/kubernetes/up.sh "$W/kubernetes" "$B"
CGO_ENABLED=0 go build -trimpath -ldflags '-s -w' -o "$W/stampede" ./cmd/stampede
docker/stampede/image.sh docker.io/stampede/stampede:local "$W/stampede" |
  ctr -a "$W/kubernetes/containerd.sock" -n k8s.io images import - > /dev/null
# In the namespace "crowded" pods want more CPUs than the node has, in "small" they get less memory than a generator needs.
for name in stampede crowded small; do
  sed "s/^  name: stampede/  name: $name/; s/namespace: stampede/namespace: $name/" docker/kubernetes/rbac.yaml |
    "$W/kubernetes/kubectl" apply -f - > /dev/null
  "$W/kubernetes/kubectl" -n $name create rolebinding user --role=stampede --user=user > /dev/null
done
"$W/kubernetes/kubectl" apply --dry-run=server -f docker/kubernetes/run.yaml > /dev/null
"$W/kubernetes/kubectl" apply -f - > /dev/null << 'END'
apiVersion: v1
kind: LimitRange
metadata: {name: all, namespace: crowded}
spec: {limits: [{type: Container, defaultRequest: {cpu: 1000}, default: {cpu: 1000}}]}
---
apiVersion: v1
kind: LimitRange
metadata: {name: all, namespace: small}
spec: {limits: [{type: Container, default: {memory: 16Mi}}]}
END
# The run is on the node: it reaches the pods, and loopback with its stores is the node's.
go test -c -trimpath -o "$W/scripts.test" ./cmd/stampede
KUBECONFIG=$W/kubernetes/kubeconfig-user STAMPEDE_TEST_KUBERNETES=$W/kubernetes STAMPEDE_TEST_ADDRESS=10.99.78.1 \
  nsenter --net="/run/netns/$(cat "$W/kubernetes/prefix")" --wd=cmd/stampede \
  "$W/scripts.test" -test.v -test.timeout 20m -test.run '^TestScripts$/^cluster$'
