package fault

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"stampede/harness/env"
)

// Effects are the machine-readable facts of one injection.
type Effects struct {
	// PIDs are the processes that were killed or frozen.
	PIDs []int `json:"pids,omitempty"`
	// IdentityBefore and IdentityAfter differ when the store was started anew.
	IdentityBefore string `json:"identity_before,omitempty"`
	IdentityAfter  string `json:"identity_after,omitempty"`
	// AnswerBeforeNS and AnswerDuringNS are how long the store took to answer
	// through the proxy; zero if it was not asked or did not answer.
	AnswerBeforeNS int64 `json:"answer_before_ns,omitempty"`
	AnswerDuringNS int64 `json:"answer_during_ns,omitempty"`
	// LostUpBytes and LostDownBytes were read by the proxy and not passed on.
	LostUpBytes   int64 `json:"lost_up_bytes,omitempty"`
	LostDownBytes int64 `json:"lost_down_bytes,omitempty"`
	// HeldConnections were neither refused nor answered.
	HeldConnections int64 `json:"held_connections,omitempty"`
	// BehindBytes are how much log a replica had and had not replayed.
	BehindBytes int64 `json:"behind_bytes,omitempty"`
	// Delayed counts pieces of data that the proxy delayed.
	Delayed int64 `json:"delayed,omitempty"`
	// Crashes are the processes that ended themselves at a place.
	Crashes []env.Crash `json:"crashes,omitempty"`
	// Stops and Kills count replicas that were taken away and came back.
	Stops int `json:"stops,omitempty"`
	Kills int `json:"kills,omitempty"`
	// CutBytes, with LostCommands whole commands in them, were taken from the
	// ends of the files of a journal of which KeptBytes remain: what was written
	// in the last CutBackNS.
	CutBytes     int64 `json:"cut_bytes,omitempty"`
	KeptBytes    int64 `json:"kept_bytes,omitempty"`
	LostCommands int64 `json:"lost_commands,omitempty"`
	CutBackNS    int64 `json:"cut_back_ns,omitempty"`
}

// Injection is a fault in force.
type Injection struct {
	fault  Fault
	target Target

	// undo ends the fault's effect; observe adds what can be seen only after
	// that. Either may be nil.
	undo, observe func(ctx context.Context) error

	mu       sync.Mutex
	effects  Effects
	evidence []string
	healed   bool
}

// frozenFor is how long a frozen store gets to prove that it still answers.
const frozenFor = 250 * time.Millisecond

// Inject puts the fault in force. Seed decides the jitter of latency. Heal
// must be called on every injection, also when ctx is over by then; when
// Inject fails, nothing is left in force.
func (f Fault) Inject(ctx context.Context, t Target, seed uint64) (*Injection, error) {
	if err := f.Available(t); err != nil {
		return nil, err
	}
	in := &Injection{fault: f, target: t}
	if err := in.inject(ctx, seed); err != nil {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), healBound)
		defer cancel()
		return nil, errors.Join(fmt.Errorf("inject %s: %w", f, err), in.Heal(ctx))
	}
	return in, nil
}

func (in *Injection) inject(ctx context.Context, seed uint64) error {
	switch in.fault.Kind {
	case Kill:
		return in.kill(ctx)
	case Pause:
		return in.pause(ctx)
	case Restart:
		return in.restart(ctx)
	case Latency:
		return in.latency(ctx, seed)
	case Partition:
		in.lose(Condition{LoseUp: true, LoseDown: true, NoDial: true})
	case LostAck:
		in.lose(Condition{LoseDown: true})
	case LostRequest:
		in.lose(Condition{LoseUp: true})
	case PowerLoss:
		return in.powerLoss(ctx)
	case Lag:
		return in.lag(ctx)
	case Crash:
		return in.crash(ctx)
	case Churn:
		in.churn(ctx, seed)
	}
	return nil
}

// Heal undoes the fault and looks for what only shows afterwards. It is
// idempotent; after an error it may be called again.
func (in *Injection) Heal(ctx context.Context) error {
	in.mu.Lock()
	defer in.mu.Unlock()
	if in.healed {
		return nil
	}
	for _, step := range []func(context.Context) error{in.undo, in.observe} {
		if step == nil {
			continue
		}
		if err := step(ctx); err != nil {
			return fmt.Errorf("heal %s: %w", in.fault, err)
		}
	}
	in.healed = true
	return nil
}

// Evidence says what was seen to happen, one sentence each; none means that
// the fault did not fire. It is complete after Heal.
func (in *Injection) Evidence() []string {
	in.mu.Lock()
	defer in.mu.Unlock()
	return append([]string(nil), in.evidence...)
}

// Effects returns the facts as JSON.
func (in *Injection) Effects() json.RawMessage {
	in.mu.Lock()
	defer in.mu.Unlock()
	data, err := json.Marshal(in.effects)
	if err != nil {
		panic(fmt.Sprintf("effects are numbers and strings: %v", err))
	}
	return data
}

// found adds a sentence of evidence.
func (in *Injection) found(format string, args ...any) {
	in.evidence = append(in.evidence, fmt.Sprintf(format, args...))
}

func (in *Injection) breakable() env.Breakable { return in.target.Component.(env.Breakable) }

// kill ends the store's processes. The proof is that another store answers
// afterwards.
func (in *Injection) kill(ctx context.Context) (err error) {
	store := in.breakable()
	if in.effects.IdentityBefore, err = store.Identity(ctx); err != nil {
		return err
	}
	in.undo = func(ctx context.Context) error { return startAgain(ctx, store, in.fault.Wipe) }
	in.observe = func(ctx context.Context) error {
		return in.compareIdentity(ctx, "killed processes %v", in.effects.PIDs)
	}
	in.effects.PIDs, err = store.Kill(ctx)
	return err
}

// restart stops and starts the store.
func (in *Injection) restart(ctx context.Context) (err error) {
	store := in.target.Component
	if in.effects.IdentityBefore, err = store.Identity(ctx); err != nil {
		return err
	}
	// A restart that failed in the middle has stopped the store.
	in.undo = func(ctx context.Context) error { return startAgain(ctx, store.(starter), false) }
	in.observe = func(ctx context.Context) error {
		return in.compareIdentity(ctx, "shut down cleanly and restarted")
	}
	if breakable, ok := store.(env.Breakable); ok {
		return breakable.Restart(ctx)
	}
	stoppable := store.(env.Stoppable)
	if err := stoppable.Stop(ctx); err != nil {
		return err
	}
	return stoppable.Start(ctx, false)
}

// starter is what both env.Breakable and env.Stoppable can do.
type starter interface {
	Start(ctx context.Context, wipe bool) error
}

// startAgain starts a store unless it runs. It does not ask the store, because
// a container that is down has no address that would refuse at once.
func startAgain(ctx context.Context, store starter, wipe bool) error {
	if err := store.Start(ctx, wipe); !errors.Is(err, env.ErrRunning) {
		return err
	}
	return nil
}

// compareIdentity finds evidence if the store is another one than before.
func (in *Injection) compareIdentity(ctx context.Context, what string, args ...any) error {
	after, err := in.target.Component.Identity(ctx)
	if err != nil {
		return err
	}
	in.effects.IdentityAfter = after
	if before := in.effects.IdentityBefore; after != before {
		in.found(what, args...)
		in.found("%s's identity changed from %s to %s", in.fault.Target, before, after)
	}
	return nil
}

// pause freezes the store's processes. The proof is that it does not answer.
func (in *Injection) pause(ctx context.Context) (err error) {
	store := in.breakable()
	in.undo = store.Resume
	if in.effects.PIDs, err = store.Pause(ctx); err != nil {
		return err
	}
	ask, cancel := context.WithTimeout(ctx, frozenFor)
	defer cancel()
	// Only silence is proof: a refused connection would be another fault.
	if err := store.Ready(ask); errors.Is(err, context.DeadlineExceeded) || isTimeout(err) {
		in.found("froze processes %v", in.effects.PIDs)
		in.found("%s did not answer within %v", in.fault.Target, frozenFor)
	}
	return nil
}

// lag holds the replica's replay. The proof is log that had arrived by the end and was not
// replayed.
func (in *Injection) lag(ctx context.Context) error {
	replica := in.target.Component.(env.Replicating)
	in.undo = func(ctx context.Context) error {
		behind, err := replica.GoOn(ctx)
		in.effects.BehindBytes = max(in.effects.BehindBytes, behind)
		return err
	}
	in.observe = func(context.Context) error {
		if in.effects.BehindBytes > 0 {
			in.found("%s was %d bytes of log behind when it went on", in.fault.Target,
				in.effects.BehindBytes)
		}
		return nil
	}
	return replica.Hold(ctx)
}

func isTimeout(err error) bool {
	var timeout interface{ Timeout() bool }
	return errors.As(err, &timeout) && timeout.Timeout()
}

// latency delays what passes the proxy. The proof is that the proxy delayed an answer, and that it
// took as long: on a busy machine it may have taken as long before.
func (in *Injection) latency(ctx context.Context, seed uint64) error {
	before, err := in.answer(ctx)
	if err != nil {
		return fmt.Errorf("ask %s before: %w", in.fault.Target, err)
	}
	proxy := in.target.Proxies
	stats := proxy.Stats()
	in.undo = func(context.Context) error { proxy.Heal(); return nil }
	in.observe = func(context.Context) error {
		in.effects.Delayed = proxy.Stats().Sub(stats).Delayed
		return nil
	}
	proxy.Impose(Condition{Latency: in.fault.Latency, Jitter: in.fault.Jitter, Seed: seed})
	during, err := in.answer(ctx)
	in.effects.AnswerBeforeNS = before.Nanoseconds()
	switch {
	case err != nil && isTimeout(err):
		in.found("%s answered within %v before and not at all during", in.fault.Target, before)
	case err != nil:
		return fmt.Errorf("ask %s during: %w", in.fault.Target, err)
	default:
		in.effects.AnswerDuringNS = during.Nanoseconds()
		late := proxy.Stats().Sub(stats).Delayed
		if late > 0 && during >= in.fault.Latency-in.fault.Jitter {
			in.found("%s answered within %v before and %v during, when %d pieces of data were delayed",
				in.fault.Target, before.Round(time.Microsecond), during.Round(time.Microsecond), late)
		}
	}
	return nil
}

// answers is how often the store is asked for the time it takes to answer.
const answers = 3

// answer is the shortest time that the store takes to answer through the
// proxy, a new connection included.
func (in *Injection) answer(ctx context.Context) (time.Duration, error) {
	var best time.Duration
	for i := range answers {
		start := time.Now()
		if err := readyThrough(ctx, in.target); err != nil {
			return 0, err
		}
		if took := time.Since(start); i == 0 || took < best {
			best = took
		}
	}
	return best, nil
}

// readyThrough asks the store as clients do: through the proxy, if one stands
// before it.
func readyThrough(ctx context.Context, t Target) error {
	store, ok := t.Component.(env.Reachable)
	if !ok || len(t.Proxies) == 0 {
		return t.Component.Ready(ctx)
	}
	return store.ReadyAt(ctx, t.Proxies[0].Addr())
}

// lose makes the proxy lose data. The proof is what it lost of the clients'
// own traffic: without any, nobody has felt the fault.
func (in *Injection) lose(c Condition) {
	proxy := in.target.Proxies
	before := proxy.Stats()
	in.undo = func(context.Context) error { proxy.Heal(); return nil }
	in.observe = func(context.Context) error {
		since := proxy.Stats().Sub(before)
		in.effects.LostUpBytes, in.effects.LostDownBytes = since.LostUp, since.LostDown
		in.effects.HeldConnections = since.Held
		if since.LostUp > 0 {
			in.found("%d bytes of requests were lost", since.LostUp)
		}
		if since.LostDown > 0 {
			in.found("%d bytes of replies were lost", since.LostDown)
		}
		if since.Held > 0 {
			in.found("%d new connections were neither refused nor answered", since.Held)
		}
		return nil
	}
	proxy.Impose(c)
}
