#!/bin/sh
# Sample reports of all kinds, small ones, and a page over them: make gallery.
#   docs/samples/gallery.sh [FOLDER]
set -eu
cd "$(dirname "$0")/../.."
out=${1:-gallery}
runs=$out/runs # alone there, so that the page over them lists nothing else
mkdir -p "$runs"

# One of each system: a design that holds beside one that is caught.
bin/stampede run flash-sale-100k --profile smoke --seed 1 --fail-on none --out "$runs" \
	--variant units_skip_locked,redis_lua,queue_serialized,naive_read_write,redis_get_decr
bin/stampede run likes-celebrity --profile smoke --seed 1 --fail-on none --out "$runs" \
	--variant redis_key,shards_fixed,redis_check_then_set
bin/stampede run viral-video-skew --profile smoke --seed 1 --fail-on none --out "$runs" \
	--variant video_key,composite_key
bin/stampede run views-consumer-crash --profile smoke --seed 1 --fail-on none --out "$runs" \
	--variant video_key,counts_before_offsets
bin/stampede run task-burst-9am --profile smoke --seed 1 --fail-on none --out "$runs" \
	--variant skip_locked,batch,claim_without_marking
bin/stampede run scheduler-zombie-executor --profile smoke --seed 1 --fail-on none --out "$runs" \
	--variant skip_locked,unfenced_reclaim
bin/stampede run broker-throughput --profile smoke --seed 1 --fail-on none --out "$runs" \
	--variant batched,listen_notify,claim_without_marking

# A fault: Redis stalls and comes back.
bin/stampede run flash-sale-redis-stall --profile smoke --seed 1 --fail-on none --out "$runs" \
	--variant redis_lua,redis_get_decr

# A failure: somebody's server that sells more than there is.
docs/samples/failing-server.sh "$runs"

# A comparison of two runs. They are of one build, so they should not differ.
bin/stampede run flash-sale-payment-race --profile smoke --seed 1 --fail-on none \
	--variant units_skip_locked --repeat 5 --out "$out/base"
bin/stampede run flash-sale-payment-race --profile smoke --seed 1 --fail-on none \
	--variant units_skip_locked --repeat 5 --out "$runs"
bin/stampede compare "before=$out/base/flash-sale-payment-race/latest" \
	"after=$runs/flash-sale-payment-race/latest" --html "$out/compare.html"

# How much does it carry? A rough search, which may end undecided on a busy machine.
bin/stampede knee flash-sale-100k --profile smoke --seed 1 --variant units_skip_locked \
	--objective "p99(response, buy) <= 250ms in steady" --window 2s --repeats 1 \
	--precision 0.5 --out "$runs" || [ $? -le 4 ]

bin/stampede report --index --out "$runs" >/dev/null
echo
echo "all runs:     $runs/index.html"
echo "the failure:  $runs/flash-sale-100k/latest/report.html"
echo "comparison:   $out/compare.html"
echo "the knee:     $runs/knee/flash-sale-100k/latest/report.html"
