package telemetry

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"syscall"
	"time"

	"stampede/harness/env"
	"stampede/harness/rundir"
)

// CPU is the processor time of components, by their names, and of this process.
func CPU(components []env.Metered) *Processor {
	return &Processor{asked: components, shown: len(components),
		spent: make([]spending, len(components)+1)}
}

// Processor is a Source that also adds up what has been spent since it was asked first.
type Processor struct {
	// asked are the components, of which the first ones are shown.
	asked []env.Metered
	shown int
	// spent has this process first, then the components.
	spent []spending
	// whole says that what others spent is of interest; machine is what was spent when
	// everybody had been asked first.
	whole bool
	// processors is how many this process had when it was asked to watch the machine: it
	// has one more while it offers load.
	processors int
	began      time.Time
	machine    Machine
	// seen is the machine at the last reading at which everybody answered.
	seen *reading
}

// reading is what the machine and the known components had used at a moment.
type reading struct {
	Machine
	at    time.Time
	known time.Duration
}

// spending is what somebody has spent between the first answer and the last one. Who is
// started again begins at nothing: what was spent between the last answer and the end
// before that is not known.
type spending struct {
	// answers is how often it did, answered whether it did when it was asked last, at when.
	answers     int
	answered    bool
	last, total time.Duration
	at          time.Time
	// unseen is for how long it may have worked without being counted.
	unseen time.Duration
}

// note takes an answer; began is when everybody had been asked first.
func (s *spending) note(began, now time.Time, used time.Duration) {
	switch {
	case s.answers == 0 && !began.IsZero():
		s.unseen += now.Sub(began)
	case s.answers == 0:
	case used >= s.last:
		s.total += used - s.last
	default:
		s.total += used
		s.unseen += now.Sub(s.at)
	}
	s.answered, s.last, s.at = true, used, now
	s.answers++
}

// Whole says that no other process of this machine works for the run than the components and
// those beside them, which are not shown: any other CPU use there is foreign. It must be
// called before the first sample.
func (p *Processor) Whole(beside []env.Metered) {
	p.whole, p.processors = true, runtime.GOMAXPROCS(0)
	p.asked = append(p.asked[:p.shown:p.shown], beside...)
	p.spent = make([]spending, len(p.asked)+1)
}

// Name implements Source.
func (*Processor) Name() string { return "cpu" }

// Read implements Source. A component that is down has no point; the others have.
func (p *Processor) Read(ctx context.Context) ([]Value, error) {
	for i := range p.spent {
		p.spent[i].answered = false
	}
	used := make([]time.Duration, len(p.asked))
	up := make([]bool, len(p.asked))
	var asked sync.WaitGroup
	for i, component := range p.asked {
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
	now := time.Now()
	p.spent[0].note(p.began, now, own)
	values := []Value{cores(rundir.GeneratorPart, own)}
	for i, component := range p.asked {
		if !up[i] {
			continue
		}
		p.spent[i+1].note(p.began, now, used[i])
		if i < p.shown {
			values = append(values, cores(string(component.Service()), used[i]))
		}
	}
	m, err := readMachine(procFS)
	if err != nil {
		m = Machine{} // a machine that does not say
	}
	if p.whole && p.began.IsZero() {
		p.began, p.machine = time.Now(), m
	}
	return append(values, p.taken(m, now)...), nil
}

// taken is what the hypervisor and other programs took since the last reading. What other
// programs took is known only if all of the machine is there for this process and all that
// works for the run answered, now and then.
func (p *Processor) taken(m Machine, now time.Time) (values []Value) {
	if m.Cores == 0 {
		return nil
	}
	// Of the whole machine, as far as its cores are there for this process.
	ours := float64(min(runtime.NumCPU(), m.Cores)) / float64(m.Cores)
	values = append(values, Value{Quantity: rundir.Taken, Part: rundir.Hypervisor, Unit: "cores",
		Amount: m.Stolen.Seconds() * ours, Counts: true})
	before := p.seen
	p.seen = nil
	if !p.whole || p.processors != m.Cores || !p.answered() {
		return values
	}
	p.seen = &reading{Machine: m, at: now}
	for _, s := range p.spent {
		p.seen.known += s.total + s.unseen*time.Duration(m.Cores)
	}
	if before == nil || !now.After(before.at) {
		return values
	}
	used := (m.Busy - before.Busy) - max(0, m.Engines-before.Engines) - (p.seen.known - before.known)
	return append(values, Value{Quantity: rundir.Taken, Part: rundir.OtherPrograms, Unit: "cores",
		Amount: max(0, used).Seconds() / now.Sub(before.at).Seconds()})
}

// procFS is where Linux says what its processors do.
const procFS = "/proc"

// Spent takes the last sample and returns the CPU time since the first one: of each component
// that was ever sampled, and of other programs. If a component was sampled only once, its use
// is unknown and no component is reported. It must not be called while p may be read.
func (p *Processor) Spent(ctx context.Context) (out rundir.Processor) {
	now, err := readMachine(procFS) // before the rest, whose work until then is theirs
	span := time.Since(p.began)
	// A container engine that is busy may be late. Who does not answer at all has spent what
	// it had when it last did.
	for range spentTries {
		if _, _ = read(ctx, p); p.answered() {
			break
		}
	}
	if err == nil {
		out.Machine = p.foreignCPU(now, span)
	}
	for i, s := range p.spent[:p.shown+1] {
		switch s.answers {
		case 0:
			continue
		case 1:
			out.Parts = nil
			return out
		}
		name := rundir.GeneratorPart
		if i > 0 {
			name = string(p.asked[i-1].Service())
		}
		out.Parts = append(out.Parts, rundir.ProcessorPart{Name: name, NS: s.total.Nanoseconds()})
	}
	return out
}

// spentTries is how often everybody is asked in the end until they have answered.
const spentTries = 3

// answered says whether everybody did when they were asked last.
func (p *Processor) answered() bool {
	return !slices.ContainsFunc(p.spent, func(s spending) bool { return !s.answered })
}

// foreignCPU is the CPU time used between two samples by processes that we do not track. It
// is nil if this process sees only some of the machine's cores. While a tracked process may
// have used CPU that was not sampled, that much of the time is reported as unknown.
func (p *Processor) foreignCPU(now Machine, span time.Duration) *rundir.Machine {
	if p.machine.Cores == 0 || p.processors != now.Cores {
		return nil
	}
	used := (now.Busy - p.machine.Busy) - max(0, now.Engines-p.machine.Engines)
	unseen := time.Duration(0)
	for _, s := range p.spent {
		used -= s.total
		unseen += s.unseen
		switch {
		case s.answers == 0:
			unseen += span
		case !s.answered:
			unseen += p.began.Add(span).Sub(s.at)
		}
	}
	used = max(0, used)
	unknown := min(used, unseen*time.Duration(now.Cores))
	return &rundir.Machine{SpanNS: int64(span), Cores: now.Cores, OthersNS: int64(used - unknown),
		UnknownNS: int64(unknown)}
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
