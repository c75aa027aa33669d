package load

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"unicode/utf8"

	"stampede/harness/history"
	"stampede/harness/sut"
)

// maxErr bounds the text of an error in a record, in bytes.
const maxErr = 400

// worker executes one operation at a time and records it.
type worker struct {
	run   *runner
	next  job           // set by the pool before wake
	wake  chan struct{} // capacity 1
	watch watch
	shard Recorder // nil until the first record
	rec   history.Record
}

func newWorker(r *runner) *worker {
	return &worker{
		run:   r,
		wake:  make(chan struct{}, 1),
		watch: watch{base: r.plan.Base, parent: r.ops, timeout: r.plan.Timeout},
	}
}

// serve executes the pool's jobs until it is closed.
func (w *worker) serve() {
	defer w.watch.close()
	for w.run.pool.take(w) {
		if !w.work() {
			return
		}
		w.help()
	}
}

// help lets the worker do the pacer's work if that is late.
func (w *worker) help() {
	defer w.run.guard("making or dispatching an operation")
	if p := w.run.pacer.Load(); p != nil {
		p.help()
	}
}

// work executes w.next; it reports false if the worker is to end.
func (w *worker) work() (more bool) {
	abandoned := false
	defer func() {
		if !abandoned { // else abandon has done it
			w.run.pool.done()
		}
	}()
	defer w.run.guard("recording an operation or asking for its follow-ups")
	abandoned = !w.execute(&w.next)
	return !abandoned
}

// execute performs and records one operation. It reports false if that took
// so long that the run has given the worker up.
func (w *worker) execute(j *job) bool {
	r := w.run
	start := r.now()
	r.live.started.Add(1)
	ctx := w.watch.begin(j, start)
	resend(r.resender, j, sut.Together, start, r.push)
	reply, err := w.call(ctx, j.op)
	end := r.now()
	if !w.watch.end() {
		return false
	}
	outcome := sut.Outcome(err)
	if outcome != history.OK {
		reply = history.Reply{}
	}
	w.record(history.Record{
		Seq: j.seq, Op: j.op, Reply: reply, Outcome: outcome, Err: errorText(err, ctx),
		Code: sut.Code(err), Intended: j.due, Start: start, End: end,
	})
	r.live.finished(outcome, end-j.due)
	if !j.again {
		r.follow(r.plan.Workload.Follow(j.op, outcome, reply), end)
	}
	if outcome == history.OK {
		resend(r.resender, j, sut.Later, end, r.push)
	}
	return true
}

// record appends to the worker's shard, which it takes when first needed: a
// run seldom uses all of its workers.
func (w *worker) record(rec history.Record) {
	if w.shard == nil {
		w.shard = w.run.newShard()
	}
	w.rec = rec
	w.shard.Append(&w.rec)
}

// errPanic marks a panic of the system under test.
type errPanic struct{ value any }

func (e errPanic) Error() string { return fmt.Sprintf("panic: %v", e.value) }

// call performs the operation; a panic becomes an error of unknown outcome.
func (w *worker) call(ctx context.Context, op history.Op) (reply history.Reply, err error) {
	defer func() {
		if value := recover(); value != nil {
			err = errPanic{value}
			w.run.notePanic(fmt.Sprintf("%v on operation %d (%s)\n%s",
				value, op.ID, op.Kind, debug.Stack()))
		}
	}()
	return w.run.do(ctx, op)
}

// errorText is the record's error: the class, then the text. Timeouts and
// cancellations come from us, whatever the driver makes of them.
func errorText(err error, ctx context.Context) string {
	if err == nil {
		return ""
	}
	text := err.Error()
	if !errors.Is(err, sut.ErrRefused) {
		switch ctx.Err() {
		case context.DeadlineExceeded:
			text = "timeout: " + text
		case context.Canceled:
			text = "cancelled: " + text
		}
	}
	return cut(text, maxErr)
}

// cut shortens a text to at most so many bytes, not inside a character.
func cut(text string, most int) string {
	if len(text) <= most {
		return text
	}
	end := most
	for end > most-utf8.UTFMax && !utf8.RuneStart(text[end]) {
		end--
	}
	return text[:end]
}

// user performs one operation after another until the end of the load.
func (w *worker) user() {
	defer w.watch.close()
	r := w.run
	end := r.start + r.plan.Duration
	sut.Pause(r.running, r.start-r.now())
	for r.now() < end && r.running.Err() == nil {
		if !w.turn() {
			return
		}
		if r.plan.Think > 0 {
			sut.Pause(r.running, min(r.plan.Think, end-r.now()))
		}
	}
}

// turn is one operation of a closed-loop user, due when the user is ready.
func (w *worker) turn() (more bool) {
	r, abandoned := w.run, false
	r.pool.enter()
	defer func() {
		if !abandoned {
			r.pool.leave()
		}
	}()
	defer r.guard("performing a user's turn")
	r.takeTurn(&w.next)
	abandoned = !w.execute(&w.next)
	return !abandoned
}
