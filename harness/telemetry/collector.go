package telemetry

import (
	"context"
	"runtime/metrics"
)

// Collector is how often this process collects garbage and how much memory is in use: the
// generator's, and of whatever of the system under test runs in it.
func Collector() Source { return collector{} }

type collector struct{}

func (collector) Name() string { return "go" }

func (collector) Read(context.Context) ([]Value, error) {
	samples := []metrics.Sample{{Name: "/gc/cycles/total:gc-cycles"},
		{Name: "/memory/classes/heap/objects:bytes"}}
	metrics.Read(samples)
	return []Value{
		{Quantity: "garbage collections", Unit: "/s", Counts: true,
			Amount: float64(samples[0].Value.Uint64())},
		{Quantity: "heap", Unit: "bytes", Amount: float64(samples[1].Value.Uint64())},
	}, nil
}

func (collector) Close() {}
