package telemetry

import (
	"context"
	"fmt"
	"sync"
	"syscall"
	"time"

	"stampede/harness/env"
	"stampede/harness/rundir"
)

// CPU is the processor time of components, by their names, and of this process. Whole
// says that they are all that works for the system under test on this machine, so that
// what else is used there is used by others.
func CPU(components []env.Metered, whole bool) *Processor {
	p := &Processor{components: components, spent: make([]spending, len(components)+1)}
	if whole {
		p.began = time.Now()
		// Where a machine does not say, nobody knows what others use.
		p.machine, _ = readMachine(procFS)
	}
	return p
}

// procFS is where Linux says what its processors do.
const procFS = "/proc"

// Processor is a Source that also adds up what has been spent since it was asked first.
type Processor struct {
	components []env.Metered
	// spent has this process first, then the components.
	spent []spending
	// machine is what was used when it began, if others are of interest.
	began   time.Time
	machine machine
}

// spending is what somebody has spent between the first answer and the last one. Who is
// started again begins at nothing: what was spent between the last answer and the end
// before that is not known.
type spending struct {
	seen        bool
	last, total time.Duration
}

func (s *spending) note(used time.Duration) {
	switch {
	case !s.seen:
	case used >= s.last:
		s.total += used - s.last
	default:
		s.total += used
	}
	s.seen, s.last = true, used
}

// Name implements Source.
func (*Processor) Name() string { return "cpu" }

// Read implements Source. A component that is down has no point; the others have.
func (p *Processor) Read(ctx context.Context) ([]Value, error) {
	used := make([]time.Duration, len(p.components))
	up := make([]bool, len(p.components))
	var asked sync.WaitGroup
	for i, component := range p.components {
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
	p.spent[0].note(own)
	values := []Value{cores(rundir.GeneratorPart, own)}
	for i, component := range p.components {
		if up[i] {
			p.spent[i+1].note(used[i])
			values = append(values, cores(string(component.Service()), used[i]))
		}
	}
	return values, nil
}

// Spent asks once more and returns what was spent since it was asked first, of those
// that ever answered, and what others on the machine spent since it was made. It must not
// be called while it may be read.
func (p *Processor) Spent(ctx context.Context) (out rundir.Processor) {
	// Who does not answer now has spent what it had when it last did.
	_, _ = read(ctx, p)
	for i, s := range p.spent {
		if !s.seen {
			continue
		}
		name := rundir.GeneratorPart
		if i > 0 {
			name = string(p.components[i-1].Service())
		}
		out.Parts = append(out.Parts, rundir.ProcessorPart{Name: name, NS: s.total.Nanoseconds()})
	}
	if now, err := readMachine(procFS); err == nil && p.machine.cores > 0 {
		out.Machine = p.others(now, time.Since(p.began), out.Parts)
	}
	return out
}

// others is what was used between two looks at the machine by nobody that is known.
func (p *Processor) others(now machine, span time.Duration, parts []rundir.ProcessorPart,
) *rundir.Machine {
	used := (now.busy - p.machine.busy) - (now.engines - p.machine.engines)
	for _, part := range parts {
		used -= time.Duration(part.NS)
	}
	return &rundir.Machine{SpanNS: int64(span), Cores: now.cores, OthersNS: int64(max(0, used))}
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
func (*Processor) Close() {}
