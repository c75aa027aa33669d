#!/bin/sh
# Small sample reports of all kinds, and an index of them: make gallery.
#   docs/samples/gallery.sh [FOLDER]
set -eu
cd "$(dirname "$0")/../.."
out=${1:-gallery}
runs=$out/runs # a folder of its own, so that the index lists nothing else
mkdir -p "$runs"

# Each system: a design that holds beside one that is caught.
bin/stampede run flash-sale-100k --profile smoke --seed 1 --fail-on none --out "$runs" \
	--design units_skip_locked,redis_lua,queue_serialized,naive_read_write,redis_get_decr
bin/stampede run likes-celebrity --profile smoke --seed 1 --fail-on none --out "$runs" \
	--design redis_key,shards_fixed,redis_check_then_set
bin/stampede run viral-video-skew --profile smoke --seed 1 --fail-on none --out "$runs" \
	--design video_key,composite_key
bin/stampede run views-consumer-crash --profile smoke --seed 1 --fail-on none --out "$runs" \
	--design video_key,counts_before_offsets
bin/stampede run task-burst-9am --profile smoke --seed 1 --fail-on none --out "$runs" \
	--design skip_locked,batch,claim_without_marking
bin/stampede run scheduler-zombie-executor --profile smoke --seed 1 --fail-on none --out "$runs" \
	--design skip_locked,unfenced_reclaim
bin/stampede run broker-throughput --profile smoke --seed 1 --fail-on none --out "$runs" \
	--design batched,listen_notify,claim_without_marking
bin/stampede run reservation-rush --profile smoke --seed 1 --fail-on none --out "$runs" \
	--design row_per_night,exclusion_ranges,read_then_insert
bin/stampede run checkout-launch --profile smoke --seed 1 --fail-on none --out "$runs" \
	--design row_lock,waiting_room,key_per_retry
bin/stampede run idempotency-retry-storm --profile smoke --seed 1 --fail-on none --out "$runs" \
	--design postgres_points,postgres_transaction,check_then_insert
bin/stampede run taskqueue-worker-crash --profile smoke --seed 1 --fail-on none --out "$runs" \
	--design postgres_batch,redis_lists,ack_before_handler
bin/stampede run adclicks-late-data --profile smoke --seed 1 --fail-on none --out "$runs" \
	--design windows_in_memory,processing_time
bin/stampede run topk-moving --profile smoke --seed 1 --fail-on none --out "$runs" \
	--design space_saving,heavy_keeper,arrival_time
bin/stampede run writeheavy-burst --profile smoke --seed 1 --fail-on none --out "$runs" \
	--design row_at_a_time,shard_and_flush,map_changed_unmoved
bin/stampede run positions-fleet --profile smoke --seed 1 --fail-on none --out "$runs" \
	--design one_table,crypto_shred,late_ping_rewinds
bin/stampede run commentary-wicket --profile smoke --seed 1 --fail-on none --out "$runs" \
	--design redis_etag,edge_swr,mtime_etag
bin/stampede run recents-devices --profile smoke --seed 1 --fail-on none --out "$runs" \
	--design outbox_inline,versioned_cache,late_event_revives
bin/stampede run autocomplete-news --profile smoke --seed 1 --fail-on none --out "$runs" \
	--design trie_top_k,fst_segments,stale_top_k,cached_blocks
bin/stampede run crawler-hostile --profile smoke --seed 1 --fail-on none --out "$runs" \
	--design disk_frontier,redis_frontier,polite_per_worker
bin/stampede run textsearch-crash --profile smoke --seed 1 --fail-on none --out "$runs" \
	--design disk_segments,memory,bleve,listed_before_flush

# A fault: Redis stalls and resumes.
bin/stampede run flash-sale-redis-stall --profile smoke --seed 1 --fail-on none --out "$runs" \
	--design redis_lua,redis_get_decr

# A failure: a server at a URL that sells more than there is.
docs/samples/failing-server.sh "$runs"

# A comparison of two runs of one build, which should not differ.
bin/stampede run flash-sale-payment-race --profile smoke --seed 1 --fail-on none \
	--design units_skip_locked --repeats 5 --out "$out/base"
bin/stampede run flash-sale-payment-race --profile smoke --seed 1 --fail-on none \
	--design units_skip_locked --repeats 5 --out "$runs"
bin/stampede compare "before=$out/base/flash-sale-payment-race/latest" \
	"after=$runs/flash-sale-payment-race/latest" --html "$out/compare.html"

# A search for the highest rate that works, in few and short windows.
bin/stampede knee flash-sale-100k --profile smoke --seed 1 --design units_skip_locked \
	--objective "p99(response, buy) <= 250ms in steady" --window 2s --repeats 1 \
	--precision 0.5 --out "$runs" || [ $? -le 4 ]

bin/stampede report --index --out "$runs" >/dev/null
echo
echo "all runs:     $runs/index.html"
echo "the failure:  $runs/flash-sale-100k/latest/report.html"
echo "comparison:   $out/compare.html"
echo "the knee:     $runs/knee/flash-sale-100k/latest/report.html"
