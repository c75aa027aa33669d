package deploy

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"stampede/harness/env"
	"stampede/harness/env/admin"
	"stampede/harness/sut"
)

// worker is a replica of a role, or a server of the API, as a process.
type worker struct {
	plan       Plan
	role, name string
	cfg        sut.Config
	via        map[string]string
	// serving, if set, is told where a server of the API listens, at each start.
	serving func(address string) error

	// mu is held while the process is being started or ended.
	mu   sync.Mutex
	life *life // nil before the first start
	// port is that of a server of the API, through all its lives; nil before the first one.
	port *admin.Reserved
	// lives counts the starts.
	lives int

	// told guards errs: what went wrong with lives that are over.
	told sync.Mutex
	errs []error
}

var (
	_ env.Crashable = (*worker)(nil)
	_ env.Stoppable = (*worker)(nil)
	_ env.Metered   = (*worker)(nil)
)

func newWorker(
	p Plan, role, name string, cfg sut.Config, via map[string]string,
) *worker {
	return &worker{plan: p, role: role, name: name, cfg: cfg, via: via}
}

// life is one process of a worker.
type life struct {
	env.Process
	number int
	orders *writer

	// over is closed when the process has ended and all that it said was heard.
	over chan struct{}

	mu sync.Mutex
	// answered is closed and renewed whenever the child has said something.
	answered chan struct{}
	ordered  int
	ready    bool
	obeyed   map[int]line // the answers to orders, by their numbers
	crash    *env.Crash
	failure  string
	// expected is set when the process was told to end.
	expected bool
}

// launch starts it for the first time.
func (w *worker) launch(ctx context.Context) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, startBound)
	defer cancel()
	return w.start(ctx)
}

// Start implements env.Breakable. The process outlives ctx. If it fails, as it may because a store
// is broken at the same time, another one is started, as a supervisor would.
func (w *worker) Start(ctx context.Context, _ bool) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if _, err := w.running(); err == nil {
		return fmt.Errorf("start %s: %w", w.name, env.ErrRunning)
	}
	ctx, cancel := context.WithTimeout(ctx, startBound)
	defer cancel()
	for retry := (sut.Retry{}); ; {
		if err := w.start(ctx); err == nil || !retry.Rest(ctx) {
			return err
		}
	}
}

// start starts the process and waits until it is ready.
func (w *worker) start(ctx context.Context) (err error) {
	if w.role == API && w.port == nil {
		if w.port, err = admin.Reserve(cmp.Or(w.plan.Host, "127.0.0.1")); err != nil {
			return fmt.Errorf("start %s: %w", w.name, err)
		}
	}
	l, err := w.bear(ctx)
	if err != nil {
		return fmt.Errorf("start %s: %w", w.name, err)
	}
	w.life = l
	if err := l.begin(ctx, w.cfg, w.via, w.port.String()); err != nil {
		l.expect()
		err = errors.Join(err, l.Kill(context.WithoutCancel(ctx)))
		err = fmt.Errorf("%s did not become ready: %w%s", w.name, err,
			admin.QuoteLog(w.LogTail(admin.LogLines)))
		<-l.over
		return err
	}
	if w.serving != nil {
		return w.serving(w.port.String())
	}
	return nil
}

// bear starts the process.
func (w *worker) bear(ctx context.Context) (*life, error) {
	p, err := w.plan.Launcher.Launch(ctx, env.Program{Name: w.name, Log: w.plan.Log(w.name),
		RunID: w.plan.RunID, Folder: w.cfg.Folder,
		Args: Args(w.plan.System.Name, w.plan.Variant.Name, w.role)})
	if err != nil {
		return nil, err
	}
	w.lives++
	l := &life{Process: p, number: w.lives, orders: &writer{out: p.Input()},
		over: make(chan struct{}), answered: make(chan struct{}), obeyed: map[int]line{}}
	go w.follow(l)
	return l, nil
}

// begin tells the process what to do and waits until it does.
func (l *life) begin(
	ctx context.Context, cfg sut.Config, via map[string]string, listen string,
) error {
	setup, err := setupOf(cfg, via)
	if err != nil {
		return err
	}
	setup.Listen = listen
	if err := l.orders.write(setup); err != nil {
		return fmt.Errorf("sending its configuration: %w", err)
	}
	return l.await(ctx, func() bool { return l.ready })
}

// Args are the arguments of a process that plays a role of a variant, as a
// Child.
func Args(system, variant, role string) []string {
	return []string{"serve", system, "--design", variant, "--role", role, "--supervised"}
}

// follow hears what a process says until it has ended, and notes how.
func (w *worker) follow(l *life) {
	defer close(l.over)
	unreadable := readLines(bufio.NewReaderSize(l.Output(), maxLine), l.take)
	// Before the kill: a container's copier that nobody reads from would never end.
	closing := l.Output().Close()
	if unreadable != nil {
		unreadable = errors.Join(unreadable, l.Kill(context.Background()))
	}
	<-l.Done()
	err := errors.Join(unreadable, l.judge(), closing, l.Input().Close())
	if err == nil {
		return
	}
	err = fmt.Errorf("role %s: %w", w.name, err)
	complain(w.plan.Config.Logger, w.name, err)
	w.told.Lock()
	defer w.told.Unlock()
	w.errs = append(w.errs, err)
}

// take notes what a child said.
func (l *life) take(said line) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch said.Word {
	case ready:
		l.ready = true
	case done:
		l.obeyed[said.Number] = said
	case reached:
		l.crash = &env.Crash{PID: l.PID(), Place: said.Place, Passage: said.Passage}
	case failed:
		l.failure = said.Error
	default:
		return fmt.Errorf("it sent %q, which is not understood", said.Word)
	}
	close(l.answered)
	l.answered = make(chan struct{})
	return nil
}

// expect notes that the process is about to be ended.
func (l *life) expect() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.expected = true
}

// judge says what was wrong with the way in which a process ended; nil if
// nothing was.
func (l *life) judge() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	how := l.How()
	switch {
	case !l.ready: // begin says why
		return nil
	case l.failure != "":
		return errors.New(l.failure)
	case how.Killed && (l.expected || l.crash != nil), l.expected && how.Code == 0:
		return nil
	case how.Code == 0:
		return errors.New("ended by itself")
	case how.Killed:
		return fmt.Errorf("%w: its process %d ended: %s", ErrCutShort, l.PID(), how.Text)
	}
	return fmt.Errorf("its process %d ended: %s", l.PID(), how.Text)
}

// await waits until something that the child says makes it so. The condition
// is asked under the lock.
func (l *life) await(ctx context.Context, so func() bool) error {
	for {
		l.mu.Lock()
		ok, answered, failure := so(), l.answered, l.failure
		l.mu.Unlock()
		if ok {
			return nil
		}
		if failure != "" {
			return errors.New(failure)
		}
		select {
		case <-answered:
		case <-l.over:
			if l.met(so) {
				return nil
			}
			return errors.New("its process ended: " + l.How().Text)
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// met asks a condition once, under the lock.
func (l *life) met(so func() bool) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return so()
}

// order tells the child something and waits until it has obeyed. Heard, if it is not nil,
// takes the answer.
func (l *life) order(ctx context.Context, what line, heard *line) error {
	l.mu.Lock()
	l.ordered++
	what.Number = l.ordered
	l.mu.Unlock()
	if err := l.orders.write(what); err != nil {
		return l.silence(ctx, err)
	}
	return l.await(ctx, func() bool {
		answer, ok := l.obeyed[what.Number]
		if ok && heard != nil {
			*heard = answer
		}
		return ok
	})
}

// silence is why a child could not be told something: it has ended, and what it
// said before that has been heard when this returns.
func (l *life) silence(ctx context.Context, err error) error {
	select {
	case <-l.over:
		return errors.New("its process ended: " + l.How().Text)
	case <-ctx.Done():
		return err
	}
}

// running is the live process, or an error if there is none. It needs the lock.
func (w *worker) running() (*life, error) {
	if w.life == nil || env.Ended(w.life.over) {
		return nil, fmt.Errorf("%s is not running", w.name)
	}
	return w.life, nil
}

// current is running for those who do not have the lock.
func (w *worker) current() (*life, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.running()
}

// CPU implements env.Metered. The process is one of this machine's, in a container
// too.
func (w *worker) CPU(context.Context) (time.Duration, error) {
	if !w.mu.TryLock() {
		return 0, fmt.Errorf("%s is being started or ended", w.name)
	}
	defer w.mu.Unlock()
	l, err := w.running()
	if err != nil {
		return 0, err
	}
	stat, err := env.StatOf(l.PID())
	if err != nil {
		return 0, fmt.Errorf("asking for the processor time of %s: %w", w.name, err)
	}
	return stat.CPU + stat.Children, nil
}

func (w *worker) Kill(ctx context.Context) ([]int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	l, err := w.running()
	if err != nil {
		return nil, err
	}
	l.expect()
	if err := l.Kill(ctx); err != nil {
		return nil, fmt.Errorf("kill %s: %w", w.name, err)
	}
	<-l.over
	return []int{l.PID()}, nil
}

func (w *worker) Pause(ctx context.Context) ([]int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	l, err := w.running()
	if err != nil {
		return nil, err
	}
	return []int{l.PID()}, l.Pause(ctx)
}

// Resume implements env.Breakable. Resuming what runs changes nothing.
func (w *worker) Resume(ctx context.Context) error {
	l, err := w.current()
	if err != nil {
		return err
	}
	return l.Resume(ctx)
}

func (w *worker) Restart(ctx context.Context) error {
	if _, err := w.current(); err != nil {
		return err
	}
	if err := w.Stop(ctx); err != nil {
		return err
	}
	return w.Start(ctx, false)
}

// Stop implements env.Stoppable. A process that goes on for half a minute is
// killed, which is an error.
func (w *worker) Stop(ctx context.Context) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	l, err := w.running()
	if err != nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, stopBound)
	defer cancel()
	l.expect()
	if err := l.Terminate(ctx); err != nil {
		return fmt.Errorf("stop %s: %w: %w", w.name, ErrCutShort, err)
	}
	select {
	case <-l.over:
		return nil
	case <-ctx.Done():
	}
	bound, cancelKill := context.WithTimeout(context.WithoutCancel(ctx), killBound)
	defer cancelKill()
	return errors.Join(fmt.Errorf("role %s: %w: it did not end within %s of the request to stop",
		w.name, ErrCutShort, stopBound), l.Kill(bound))
}

func (w *worker) end() error {
	err := w.Stop(context.Background())
	w.mu.Lock()
	if w.life != nil && err == nil {
		<-w.life.over
	}
	err = errors.Join(err, w.port.Close())
	w.mu.Unlock()
	w.told.Lock()
	defer w.told.Unlock()
	return errors.Join(append(w.errs, err)...)
}

func (w *worker) Arm(ctx context.Context, place string, passage int) error {
	l, err := w.current()
	if err != nil {
		return err
	}
	if err := l.order(ctx, line{Word: arm, Place: place, Passage: passage}, nil); err != nil {
		if _, gone := w.crashed(l); gone {
			return nil // it was there already
		}
		return fmt.Errorf("arm %s: %w", w.name, err)
	}
	return nil
}

func (w *worker) Disarm(ctx context.Context) ([]env.Crash, error) {
	w.mu.Lock()
	l := w.life
	w.mu.Unlock()
	if l == nil {
		return nil, nil
	}
	err := l.order(ctx, line{Word: disarm}, nil)
	if crash, ok := w.crashed(l); ok {
		return []env.Crash{crash}, nil
	}
	if err != nil {
		return nil, fmt.Errorf("disarm %s: %w", w.name, err)
	}
	return nil, nil
}

// crashed is how a process ended itself, if it said so and was then killed. One
// that has said so is waited for.
func (w *worker) crashed(l *life) (env.Crash, bool) {
	l.mu.Lock()
	crash := l.crash
	l.mu.Unlock()
	if crash == nil {
		return env.Crash{}, false
	}
	<-l.over
	made := *crash
	made.Name = w.name
	return made, l.How().Killed
}

func (w *worker) Service() sut.Service { return sut.Service(w.name) }

// Addr implements env.Component: where a server of the API listens, else "".
func (w *worker) Addr() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.port.String()
}

func (w *worker) Info(context.Context) (env.Info, error) {
	return env.Info{Kind: w.plan.Way}, nil
}

// Ready implements env.Component: the process answers.
func (w *worker) Ready(ctx context.Context) error {
	l, err := w.current()
	if err != nil {
		return err
	}
	return l.order(ctx, line{Word: ping}, nil)
}

// AtWork implements env.Laborer: a role does its work, a server of the API answers.
func (w *worker) AtWork(ctx context.Context) error {
	l, err := w.current()
	if err != nil {
		return err
	}
	if err := l.order(ctx, line{Word: labor}, nil); err != nil {
		return fmt.Errorf("%s has not worked since: %w", w.name, err)
	}
	return nil
}

// Quiesced says what a server of the API has still to do.
func (w *worker) Quiesced(ctx context.Context) (string, error) {
	l, err := w.current()
	if err != nil {
		return "", err
	}
	var answer line
	if err := l.order(ctx, line{Word: rest}, &answer); err != nil {
		return "", fmt.Errorf("asking %s what is left to do: %w", w.name, err)
	}
	if answer.Error != "" {
		return "", fmt.Errorf("%s, asked what is left to do: %s", w.name, answer.Error)
	}
	return answer.Pending, nil
}

func (w *worker) Identity(context.Context) (string, error) {
	l, err := w.current()
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("start %d, process %d", l.number, l.PID()), nil
}

func (w *worker) LogTail(lines int) string { return env.LogTail(w.plan.Log(w.name), lines) }
