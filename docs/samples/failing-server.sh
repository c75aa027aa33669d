#!/bin/sh
# Judges a server that nobody knows to be wrong: it reads the stock and writes it then,
# and sells more than there is. The run fails, which is what it is for.
#   docs/samples/failing-server.sh FOLDER [FLAGS of run]
set -eu
cd "$(dirname "$0")/../.."
out=$1
shift
port=8098
# The items of the scenario's smoke profile: a server is opened for one sale.
bin/stampede serve flashsale --variant naive_read_write --listen 127.0.0.1:$port \
	--backend processes --set items=2 --set units=25 --set cart_ttl=1s \
	--set reclaim_every=200ms &
server=$!
trap 'kill -INT $server; wait $server || true' EXIT
curl -sS --fail --retry 60 --retry-delay 1 --retry-connrefused -o /dev/null \
	http://127.0.0.1:$port/healthz
bin/stampede run flash-sale-100k --profile smoke --seed 1 --fail-on none \
	--target http://127.0.0.1:$port --out "$out" "$@"
