#!/bin/bash
# build.sh   prints the folder with all that up.sh needs, below /var/cache/stampede, and fills it once: the part of
# Kubernetes that is in kube/, built from its Go modules, and etcd, kubectl and the network plugins of Debian, of which nothing is
# installed. Cold, that is half an hour on two cores.
set -euo pipefail
cd "$(dirname "$0")/kube"
made=$(cat go.mod go.sum main.go <(go env GOVERSION GOARCH) | sha256sum | cut -c1-12)
B=${STAMPEDE_CACHE_DIR:-/var/cache/stampede}/kubernetes-$made
mkdir -p "$B"
if [ ! -x "$B/kube" ]; then
  version=$(go list -m -f '{{.Version}}' k8s.io/kubernetes)
  V=k8s.io/component-base/version
  minor=$(cut -d. -f2 <<< "$version")
  go build -trimpath -buildvcs=false -o "$B/kube.new" \
    -ldflags "-s -w -X $V.gitVersion=$version -X $V.gitMajor=1 -X $V.gitMinor=$minor -X $V.gitTreeState=clean" . >&2
  mv "$B/kube.new" "$B/kube"
fi
[ -x "$B/pause" ] || CGO_ENABLED=0 go build -trimpath -buildvcs=false -ldflags '-s -w' -o "$B/pause" ./pause >&2
for n in kube-apiserver kube-controller-manager kube-scheduler kubelet; do ln -sf kube "$B/$n"; done
if [ ! -d "$B/debian" ]; then
  t=$(mktemp -d -p "$B")
  (cd "$t" && apt-get -q download etcd-server containernetworking-plugins kubernetes-client && for d in *.deb; do dpkg-deb -x "$d" root; done) >&2
  mv "$t/root" "$B/debian"
  rm -r "$t"
fi
echo "$B"
