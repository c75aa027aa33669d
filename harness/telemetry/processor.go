package telemetry

import (
	"context"
	"fmt"
	"sync"
	"syscall"
	"time"

	"stampede/harness/env"
)

// Generator is the part of what CPU says that is this process: the load generator,
// and whatever of the system under test runs in it.
const Generator = "generator"

// CPU is the processor time of components, by their names, and of this process.
func CPU(components []env.Metered) Source { return cpu{components} }

type cpu struct{ components []env.Metered }

func (cpu) Name() string { return "cpu" }

// Read implements Source. A component that is down has no point; the others have.
func (c cpu) Read(ctx context.Context) ([]Value, error) {
	used := make([]time.Duration, len(c.components))
	up := make([]bool, len(c.components))
	var asked sync.WaitGroup
	for i, component := range c.components {
		asked.Go(func() {
			d, err := component.CPU(ctx)
			used[i], up[i] = d, err == nil
		})
	}
	asked.Wait()
	own, err := ownTime()
	if err != nil {
		return nil, err
	}
	values := []Value{cores(Generator, own)}
	for i, component := range c.components {
		if up[i] {
			values = append(values, cores(string(component.Service()), used[i]))
		}
	}
	return values, nil
}

// cores is processor time that has been used, which grows by one second a second
// for each core.
func cores(part string, used time.Duration) Value {
	return Value{Quantity: "processor", Part: part, Unit: "cores", Amount: used.Seconds(),
		Counts: true}
}

func ownTime() (time.Duration, error) {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		return 0, fmt.Errorf("reading our own processor time: %w", err)
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano()), nil
}

// Close implements Source.
func (cpu) Close() {}
