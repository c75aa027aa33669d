#!/bin/sh
# Judges a server whose error is not declared: it reads the stock, then writes it, and sells
# more than there is. The run must fail.
#   docs/samples/failing-server.sh FOLDER [FLAGS of run]
set -eu
cd "$(dirname "$0")/../.."
out=$1
shift
said=$(mktemp)
# The items of the scenario's smoke profile: a server serves one sale. Its port is any
# free one.
bin/stampede serve flashsale --design naive_read_write --listen 127.0.0.1:0 \
	--backend processes --set items=2 --set units=25 --set cart_ttl=1s \
	--set reclaim_every=200ms >"$said" &
server=$!
trap 'kill -INT $server || true; wait $server || true; rm -f "$said"' EXIT
target=
while [ -z "$target" ]; do
	sleep 1
	kill -0 $server
	target=$(sed -n 's/^serving .* on //p' "$said")
done
bin/stampede run flash-sale-100k --profile smoke --seed 1 --fail-on none \
	--target "$target" --out "$out" "$@"
