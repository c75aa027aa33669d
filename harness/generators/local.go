package generators

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"time"

	"stampede/harness/env"
	"stampede/harness/sut"
)

// Local is the engine that starts generators as processes of this machine. They end with us.
type Local struct{ Launcher env.Launcher }

var _ env.Engine = Local{}

// Name implements env.Engine.
func (Local) Name() string { return "local" }

// Available implements env.Engine.
func (l Local) Available(ctx context.Context) error { return l.Launcher.Available(ctx) }

// Show implements env.Engine.
func (l Local) Show(b env.Batch) (string, error) {
	return fmt.Sprintf("%d processes of this machine: stampede generate --plan FILE --index 0 to %d\n",
		b.Count, b.Count-1), nil
}

// Start implements env.Engine.
func (l Local) Start(ctx context.Context, b env.Batch) (_ env.Placed, err error) {
	folder, err := filepath.Abs(b.Folder)
	if err != nil {
		return nil, fmt.Errorf("starting generators: %w", err)
	}
	p := &placed{folder: folder, ended: b.Ended}
	defer env.Undo(ctx, &err, p.Stop)
	for i := range b.Count {
		name := fmt.Sprintf("generator-%d", i+1)
		log := filepath.Join(folder, name+".log")
		process, err := l.Launcher.Launch(ctx, env.Program{Name: name, Log: log, RunID: b.RunID,
			Args: []string{"generate", "--plan", "/dev/stdin", "--index", strconv.Itoa(i),
				"--out", filepath.Join(folder, name)}})
		if err != nil {
			return nil, err
		}
		one := local{process, name, log}
		p.processes = append(p.processes, one)
		p.followed.Go(func() { p.follow(i, one) })
		// The plan has secrets, and so is in no file. A process that ends before it has read it is
		// reported by follow.
		_, _ = one.Input().Write(b.Plan)
		_ = one.Input().Close()
	}
	return p, nil
}

// placed are generators that are processes of this machine.
type placed struct {
	folder    string
	processes []local
	ended     func(int, string)
	followed  sync.WaitGroup

	mu      sync.Mutex
	stopped bool
}

// local is one of them.
type local struct {
	env.Process
	name, log string
}

// follow says how a generator ended, unless it was in order.
func (p *placed) follow(i int, one local) {
	_, _ = io.Copy(io.Discard, one.Output()) // it prints nothing that matters, until its end
	<-one.Done()
	_ = one.Output().Close() // it is dead
	p.mu.Lock()
	stopped := p.stopped
	p.mu.Unlock()
	if how := one.How(); !stopped && (how.Code != 0 || how.Killed) {
		p.ended(i, fmt.Sprintf("its process ended: %s%s", how.Text, env.LogTail(one.log, 3)))
	}
}

// Metered implements env.Placed.
func (p *placed) Metered() (list []env.Metered) {
	for _, one := range p.processes {
		list = append(list, &metered{local: one})
	}
	return list
}

// State implements env.Placed.
func (p *placed) State(_ context.Context, index int) string {
	if env.Ended(p.processes[index].Done()) {
		return "its process ended: " + p.processes[index].How().Text
	}
	return fmt.Sprintf("process %d runs", p.processes[index].PID())
}

// Stop implements env.Placed.
func (p *placed) Stop(ctx context.Context) error {
	p.mu.Lock()
	p.stopped = true
	p.mu.Unlock()
	var errs []error
	for _, one := range p.processes {
		errs = append(errs, one.Kill(ctx))
	}
	p.followed.Wait()
	for _, one := range p.processes { // what one that was killed has recorded is of no use
		errs = append(errs, os.RemoveAll(filepath.Join(p.folder, one.name)))
	}
	return errors.Join(errs...)
}

// metered is a generator whose use of the processor is known. Nothing else is asked of it.
type metered struct {
	env.Metered
	local local
	used  time.Duration
}

func (m *metered) Service() sut.Service { return sut.Service(m.local.name) }

// CPU implements env.Metered. One that has ended uses nothing more.
func (m *metered) CPU(context.Context) (time.Duration, error) {
	if stat, err := env.StatOf(m.local.PID()); err == nil && !stat.Over() {
		m.used = stat.CPU
	}
	return m.used, nil
}
