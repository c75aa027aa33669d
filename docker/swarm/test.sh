#!/bin/bash
# test.sh   runs stampede's generators on a Docker Swarm of three nodes in network namespaces of
# its own, which it brings up and takes down (make test-swarm). Needs root; see up.sh.
set -euo pipefail
cd "$(dirname "$0")/../.."
W=$(mktemp -d -t stampede-swarm-XXXXXX)
trap 'docker/swarm/down.sh "$W/swarm"; rm -rf "$W"' EXIT
trap 'exit 130' INT TERM
docker/swarm/up.sh "$W/swarm" 3
CGO_ENABLED=0 go build -trimpath -ldflags '-s -w' -o "$W/stampede" ./cmd/stampede
docker/stampede/image.sh stampede/stampede:local "$W/stampede" > "$W/image.tar"
for i in 1 2 3; do docker -H "unix://$W/swarm/$i/docker.sock" load -q < "$W/image.tar"; done
# The run is on the first node: it reaches the others, and loopback with its stores is its own.
go test -c -trimpath -o "$W/scripts.test" ./cmd/stampede
DOCKER_HOST=unix://$W/swarm/1/docker.sock STAMPEDE_TEST_SWARM=$W/swarm \
  STAMPEDE_TEST_ADDRESS=10.99.77.11 \
  nsenter --net="/run/netns/$(cat "$W/swarm/prefix")-1" --wd=cmd/stampede \
  "$W/scripts.test" -test.v -test.timeout 15m -test.run '^TestScripts$/^cluster$'
