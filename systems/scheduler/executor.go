package scheduler

import (
	"context"
	"sync"
	"time"

	"stampede/harness/sut"
)

const (
	// drainFor is how long an executor that stops works on what it has started;
	// the rest it gives back.
	drainFor = 2 * time.Second
	// beats is how often a lease is renewed in its time.
	beats = 4
)

// executor runs the tasks that it has started: half of those of a process.
type executor struct {
	*tasks
	name    string
	half    int
	rests   *idle
	carrier carrier    // nil: the table is
	batches *batchEnds // nil where runs end one by one
	// freed has a token if a task has ended since it was last looked at.
	freed chan struct{}

	mu    sync.Mutex
	hands map[int64]*hand // by the number of the run
	work  sync.WaitGroup
	// quit ends the heartbeats.
	quit   context.CancelFunc
	beatOn sync.WaitGroup
}

// hand is a run under way.
type hand struct {
	claim
	// abandon ends it: because somebody cancelled the task, or has it now.
	abandon context.CancelFunc
	stopped bool
	// ending: it has no slot any more, and waits for its end to be stored.
	ending bool
}

func newExecutor(t *tasks, name string, half int, rests *idle) *executor {
	return &executor{tasks: t, name: name, half: half, rests: rests, freed: make(chan struct{}, 1),
		hands: make(map[int64]*hand)}
}

// step starts what is due and fits in, and waits a little if there is nothing.
func (e *executor) step(ctx context.Context) error {
	limit, err := e.slots(ctx)
	if err != nil {
		return err
	}
	hands, working := e.inHand()
	free := min((limit+e.half)/takers-working, endsMost-len(hands))
	if free <= 0 {
		return e.untilFreed(ctx)
	}
	list, err := e.take(ctx, min(free, e.Params.PickBatch), hands)
	if err != nil || len(list) == 0 {
		return err
	}
	e.Config.Passed(placeClaimed)
	for _, c := range list {
		e.start(ctx, c)
	}
	return nil
}

// take starts at most n tasks, and waits a little if there are none. The start is not
// given up when the executor is told to stop: what is started must be known here, to
// be ended or given back.
func (e *executor) take(ctx context.Context, n int, hands []int64) ([]claim, error) {
	if e.carrier != nil {
		return e.takeHanded(ctx, n)
	}
	list, err := e.claim(context.WithoutCancel(ctx), e.name, n, hands)
	if err == nil && len(list) == 0 {
		err = e.rests.rest(ctx, e.takes, 0)
	}
	return list, err
}

// begin starts the heartbeats.
func (e *executor) begin(ctx context.Context) {
	if e.ends != nil {
		e.batches = e.ends(e.tasks)
	}
	ctx, e.quit = context.WithCancel(context.WithoutCancel(ctx))
	e.beatOn.Go(func() {
		for sut.Pause(ctx, e.Params.Lease.D()/beats) {
			e.beat(ctx)
		}
	})
}

func (e *executor) untilFreed(ctx context.Context) error {
	timer := time.NewTimer(e.Params.PollEvery.D())
	defer timer.Stop()
	select {
	case <-e.freed:
	case <-timer.C:
	case <-ctx.Done():
	}
	return nil
}

// inHand lists the tasks under way and counts those that have a slot.
func (e *executor) inHand() (ids []int64, working int) {
	e.mu.Lock()
	defer e.mu.Unlock()
	ids = make([]int64, 0, len(e.hands))
	for _, h := range e.hands {
		ids = append(ids, h.id)
		if !h.ending {
			working++
		}
	}
	return ids, working
}

// leave frees the slot of a task that has worked.
func (e *executor) leave(h *hand) {
	e.mu.Lock()
	h.ending = true
	e.mu.Unlock()
	e.free()
}

// free says that there may be room.
func (e *executor) free() {
	select {
	case e.freed <- struct{}{}:
	default:
	}
}

// start runs a task.
func (e *executor) start(ctx context.Context, c claim) {
	ctx, abandon := context.WithCancel(context.WithoutCancel(ctx))
	h := &hand{claim: c, abandon: abandon}
	e.mu.Lock()
	e.hands[c.run] = h
	e.mu.Unlock()
	e.work.Go(func() {
		defer abandon()
		if err := e.perform(ctx, h); err != nil {
			// Its lease will end, and somebody else will start it.
			e.warn("executor", err)
		}
		e.mu.Lock()
		delete(e.hands, c.run)
		e.mu.Unlock()
		e.free()
	})
}

// perform works on a task until it ends or is abandoned.
func (e *executor) perform(ctx context.Context, h *hand) error {
	whole := sut.Pause(ctx, time.Duration(h.workMS)*time.Millisecond)
	ctx = context.WithoutCancel(ctx)
	if !whole {
		e.mu.Lock()
		stopped := h.stopped
		e.mu.Unlock()
		if !stopped {
			return nil // somebody else has it
		}
		return e.endAs(ctx, h.claim, Cancelled)
	}
	if h.fails {
		return e.endAs(ctx, h.claim, Failed)
	}
	if e.batches != nil {
		e.leave(h)
		return e.batches.add(ctx, h.claim)
	}
	mine, err := e.effect(ctx, h.claim)
	if err != nil {
		return err
	}
	if mine {
		e.Config.Passed(placeEffected)
	}
	return e.endAs(ctx, h.claim, Done)
}

func (e *executor) endAs(ctx context.Context, c claim, outcome State) error {
	ending, err := e.ended(ctx, c, outcome)
	if err != nil {
		return err
	}
	return e.end(ctx, ending)
}

// beat renews the leases of what is under way, and abandons what is lost or was
// cancelled.
func (e *executor) beat(ctx context.Context) {
	e.mu.Lock()
	list := make([]claim, 0, len(e.hands))
	for _, h := range e.hands {
		list = append(list, h.claim)
	}
	e.mu.Unlock()
	if len(list) == 0 {
		return
	}
	renew := (*executor).renew
	if own := e.overrides.renew; own != nil {
		renew = own
	}
	if err := renew(e, ctx, list); err != nil && ctx.Err() == nil {
		e.warn("executor", err)
	}
}

// renew renews leases, stops what was cancelled and lets go of what is lost.
func (e *executor) renew(ctx context.Context, list []claim) error {
	lost, stopped, err := e.heartbeat(ctx, list)
	if err != nil {
		return err
	}
	e.abandon(stopped, true)
	return e.letGo(ctx, e.abandon(lost, false))
}

// abandon ends runs before they have worked, and returns those that it found.
func (e *executor) abandon(claims []claim, stopped bool) (list []claim) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, c := range claims {
		if h := e.hands[c.run]; h != nil {
			h.stopped = stopped
			h.abandon()
			list = append(list, c)
		}
	}
	return list
}

// drain waits for what is under way, gives back what takes too long, and ends.
func (e *executor) drain() {
	done := make(chan struct{})
	go func() {
		e.work.Wait()
		close(done)
	}()
	patience := time.NewTimer(drainFor)
	defer patience.Stop()
	select {
	case <-done:
	case <-patience.C:
		e.giveBack()
	}
	e.quit()
	e.beatOn.Wait()
	<-done
	if e.batches != nil {
		e.batches.close()
	}
}

// giveBack abandons everything and says so, that others need not wait for the
// leases to end.
func (e *executor) giveBack() {
	e.mu.Lock()
	list := make([]claim, 0, len(e.hands))
	for _, h := range e.hands {
		list = append(list, h.claim)
		h.abandon()
	}
	clear(e.hands) // no heartbeat is to miss them
	e.mu.Unlock()
	for _, c := range list {
		if err := e.release(context.Background(), c); err != nil {
			e.warn("executor", err)
		}
	}
}
