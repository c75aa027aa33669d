#!/bin/bash
# image.sh NAME:TAG BINARY [ARG...]  writes to stdout a docker-archive of an image FROM scratch with one static
# binary of GOARCH as entry point. "docker load" and "ctr images import" both take it, and its id is the same on
# every node.
set -euo pipefail
name=$1 bin=$2; shift 2
t=$(mktemp -d); trap 'rm -rf "$t"' EXIT
mkdir "$t/files" "$t/out"
cp "$bin" "$t/files/main"; chmod 755 "$t/files/main"
tar -C "$t/files" --sort=name --mtime=@0 --owner=0 --group=0 --numeric-owner -cf "$t/out/layer.tar" main
args=; for a in "$@"; do args+=",\"$a\""; done
printf '{"architecture":"%s","os":"linux","created":"1970-01-01T00:00:00Z","config":{"Entrypoint":["/main"%s],"Env":["PATH=/"]},"rootfs":{"type":"layers","diff_ids":["sha256:%s"]},"history":[{"created":"1970-01-01T00:00:00Z"}]}' \
  "${GOARCH:-$(go env GOARCH)}" "$args" "$(sha256sum < "$t/out/layer.tar" | cut -d' ' -f1)" > "$t/out/config.json"
printf '[{"Config":"config.json","RepoTags":["%s"],"Layers":["layer.tar"]}]' "$name" > "$t/out/manifest.json"
tar -C "$t/out" -cf - manifest.json config.json layer.tar
