package measure_test

import (
	"testing"
	"time"

	"stampede/harness/history"
	"stampede/harness/measure"
)

// TestQuiet: what was due in a taken second is left out, and what was due after it until
// its backlog was gone; what was dropped or never ended counts where it was due.
func TestQuiet(t *testing.T) {
	const sec, ms = time.Second, time.Millisecond
	var slice []history.Record
	add := func(due, took time.Duration) {
		slice = append(slice, history.Record{Seq: uint64(len(slice)),
			Op: history.Op{ID: uint64(len(slice) + 1), Kind: "buy"}, Outcome: history.OK,
			Intended: due, Start: due, End: due + took})
	}
	// One a 100 ms for ten seconds takes 10 ms; those of the third second all end at 4.5 s, and
	// a backlog of them is there until then.
	for due := time.Duration(0); due < 10*sec; due += 100 * ms {
		took := 10 * ms
		if due >= 2*sec && due < 3*sec {
			took = 4500*ms - due
		}
		add(due, took)
	}
	slice = append(slice, history.Record{Op: history.Op{Kind: "buy"},
		Outcome: history.Unknown, Intended: 5 * sec, Start: 5 * sec, End: history.Never})
	res, err := measure.Summarise(history.Slice(slice), measure.Options{
		Taken: []measure.Span{{From: 2 * sec, To: 3 * sec}}})
	if err != nil {
		t.Fatal(err)
	}
	q := res.Quiet
	if q == nil || q.Response.Count != 101-25 {
		t.Fatalf("%+v", q)
	}
	if taken := time.Duration(q.TakenNS); taken < 2500*ms || taken > 2600*ms {
		t.Errorf("%v was taken", taken)
	}
	if q.Response.P90 > int64(11*ms) || res.Latency.Response.P99 < int64(sec) {
		t.Errorf("quiet %+v, all %+v", q.Response, res.Latency.Response)
	}
	// A span in which nothing was due is no interference.
	res, err = measure.Summarise(history.Slice(slice), measure.Options{
		Taken: []measure.Span{{From: 20 * sec, To: 21 * sec}}})
	if err != nil || res.Quiet != nil {
		t.Errorf("%+v, %v", res.Quiet, err)
	}
}
