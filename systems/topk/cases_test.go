package topk_test

import (
	"testing"

	"stampede/harness/check"
	"stampede/harness/history"
	"stampede/harness/suttest"
	"stampede/systems/topk"
)

// smallRun is a run that every invariant accepts: two windows with three batches of keys 1 to 4,
// and a read of both.
func smallRun() *evidence {
	p := crowd()
	p.Items, p.K, p.Span, p.Error, p.Misses = 10, 2, 2, 0.1, 0.01
	e := &evidence{suttest.NewEvidence[topk.Audit](topk.System(), p)}
	l := newLog(nil, p)
	do := func(kind string, request any) {
		op := l.api.Op(kind, request)
		l.Do(op, func(reply history.Reply, err error) {
			start := 10 * ms
			for range e.Records {
				start += 10 * ms
			}
			e.Records = append(e.Records, history.Record{Seq: uint64(len(e.Records)), Op: op, Reply: reply,
				Outcome: history.OK, Intended: start, Start: start, End: start + 5*ms})
		})
	}
	for id, keys := range [][]uint64{{1, 1, 1, 2, 2, 3}, {1, 1, 2, 2, 2, 4}, {3, 3, 3, 3, 1, 2}} {
		do(topk.KindRecord, topk.RecordRequest{ID: uint64(2 + 2*id), Keys: keys,
			AtMS: int64(10+id/2) * p.Window.D().Milliseconds()})
	}
	do(topk.KindTop, topk.TopRequest{ID: 7, Window: 11, Span: 2, K: 2})
	e.Audit = l.Audit()
	return e
}

// windowRow is that of the first or the second window.
func (e *evidence) windowRow(window int64) *topk.PaneRow {
	for i := range e.Audit.Windows {
		if e.Audit.Windows[i].Window == window {
			return &e.Audit.Windows[i]
		}
	}
	return nil
}

// estimate is that of a key in the first window.
func (e *evidence) estimate(key uint64) *topk.EstimateRow {
	for i := range e.Audit.Estimates {
		if row := &e.Audit.Estimates[i]; row.Window == 10 && row.Key == key {
			return row
		}
	}
	return nil
}

// top is the rows of the first window alone.
func (e *evidence) top() []*topk.TopRow { return e.topOf(10) }

// topOf is the rows of a window alone.
func (e *evidence) topOf(window int64) []*topk.TopRow {
	var list []*topk.TopRow
	for i := range e.Audit.Top {
		if row := &e.Audit.Top[i]; row.Window == window && row.Span == 1 {
			list = append(list, row)
		}
	}
	return list
}

// contract declares that estimates may be too low and too high.
func contract(under, over, misses float64) func(*evidence) {
	return func(e *evidence) {
		e.Audit.Contract = topk.Contract{Under: under, Over: over, Misses: misses}
	}
}

type clause suttest.Case[*evidence]

// TestClauses: each clause accepts what is right and refuses what is wrong.
func TestClauses(t *testing.T) {
	p := proof()
	unread := func(e *evidence) { e.Audit.Log[0].ID = 0 }
	noWindows := func(e *evidence) { e.Audit.Windows = nil }
	suttest.Clauses(t, p, smallRun, []clause{
		{topk.AckedInLog, "a batch of unknown outcome is there", check.Held, func(e *evidence) {
			e.Records[0].Outcome, e.Records[0].Reply = history.Unknown, history.Reply{}
		}, ""},
		{topk.AckedInLog, "an acknowledged one is not", check.Broken, func(e *evidence) {
			e.Audit.Log = e.Audit.Log[1:]
		}, "was acknowledged"},
		{topk.AckedInLog, "one that nobody sent is", check.Broken, func(e *evidence) {
			e.Audit.Log = append(e.Audit.Log, topk.BatchRow{ID: 99, Events: 1})
		}, "99"},
		{topk.AckedInLog, "with another key", check.Broken, func(e *evidence) { e.Audit.Log[0].Sum++ },
			"add up to"},
		{topk.AckedInLog, "at another time", check.Broken, func(e *evidence) { e.Audit.Log[0].AtMS++ },
			"add up to"},
		{topk.AckedInLog, "answered as more than it has", check.Broken, func(e *evidence) {
			e.Records[0].Reply.Value++
		}, "was answered as 7 events, and was sent with 6"},
		{topk.AckedInLog, "twice, and was sent once", check.Broken, func(e *evidence) {
			e.Audit.Log = append(e.Audit.Log, e.Audit.Log[0])
		}, "more often than it was sent, 1"},
		{topk.AckedInLog, "no log", check.Undecided, func(e *evidence) { e.Audit.Log = nil }, "no log"},

		{topk.WindowTotals, "one event more", check.Broken, func(e *evidence) {
			e.windowRow(10).Events++
		}, "window 10 has 13 events, and the log only 12"},
		{topk.WindowTotals, "one less", check.Broken, func(e *evidence) { e.windowRow(10).Events-- },
			"window 10 has 11 events, and the log 12"},
		{topk.WindowTotals, "a window is missing", check.Broken, func(e *evidence) {
			e.Audit.Windows = e.Audit.Windows[:1]
		}, "has no events"},
		{topk.WindowTotals, "a window is there twice", check.Broken, func(e *evidence) {
			e.Audit.Windows = append(e.Audit.Windows, e.Audit.Windows[0])
		}, "twice"},
		{topk.WindowTotals, "no windows", check.Undecided, noWindowsAndLog, "no windows"},
		{topk.WindowTotals, "an audit that cannot be read", check.Undecided, unread, "log[0]"},

		{topk.EstimatesBounded, "too low, as it may be", check.Held, func(e *evidence) {
			contract(0.1, 0, 0)(e)
			e.estimate(1).Count--
		}, ""},
		{topk.EstimatesBounded, "too high, as it may be", check.Held, func(e *evidence) {
			contract(0, 0.1, 0)(e)
			e.estimate(1).Count++
		}, ""},
		{topk.EstimatesBounded, "too low, and may be too high", check.Broken, func(e *evidence) {
			contract(0, 0.1, 0)(e)
			e.estimate(1).Count--
		}, "too low"},
		{topk.EstimatesBounded, "further than it may", check.Broken, func(e *evidence) {
			contract(0, 0.1, 0)(e)
			e.estimate(1).Count += 3
		}, "too high"},
		{topk.EstimatesBounded, "in the top", check.Broken, func(e *evidence) { e.top()[0].Count++ },
			"too high"},
		{topk.EstimatesBounded, "the same estimate twice", check.Held, func(e *evidence) {
			e.Audit.Estimates = append(e.Audit.Estimates, e.Audit.Estimates[0])
		}, ""},
		{topk.EstimatesBounded, "two of a key", check.Broken, func(e *evidence) {
			other := e.Audit.Estimates[0]
			other.OnePass++
			e.Audit.Estimates = append(e.Audit.Estimates, other)
		}, "two estimates of key"},
		{topk.EstimatesBounded, "none of a key", check.Undecided, func(e *evidence) {
			e.Audit.Estimates = e.Audit.Estimates[1:]
		}, "has no estimate of key"},
		{topk.EstimatesBounded, "a contract beyond what is allowed", check.Undecided,
			contract(0.1, 0.1, 0), "the most allowed"},

		{topk.HeavyPresent, "one that is near the last one is not", check.Held, func(e *evidence) {
			contract(0.1, 0, 0)(e)
			e.top()[1].Key = 3
		}, ""},
		{topk.HeavyPresent, "the heaviest is not", check.Broken, func(e *evidence) {
			e.topOf(11)[0].Key = 9
		}, "is not in its top"},
		{topk.HeavyPresent, "a key is twice", check.Broken, func(e *evidence) {
			e.top()[1].Key = e.top()[0].Key
		}, "twice"},
		{topk.HeavyPresent, "not sorted", check.Broken, func(e *evidence) { e.top()[0].Count = 1 },
			"not sorted"},
		{topk.HeavyPresent, "too many", check.Broken, func(e *evidence) {
			e.Audit.Top = append(e.Audit.Top, topk.TopRow{Window: 10, Span: 1, Key: 4, Count: 1})
		}, "over 2"},
		{topk.HeavyPresent, "no top", check.Undecided, func(e *evidence) {
			contract(1, 1, 0)(e)
		}, "the most allowed"},
		{topk.HeavyPresent, "no key is above a bound that wide", check.Undecided, func(e *evidence) {
			e.P.Error = 0.5
			contract(0.5, 0, 0)(e)
		}, "no key is above the bound"},

		{topk.ExactAsSorted, "of two equal ones the wrong one", check.Broken, func(e *evidence) {
			e.top()[0].Key, e.top()[1].Key = 2, 1
		}, "that of the log"},
		{topk.ExactAsSorted, "a design that estimates", check.Held, contract(0.1, 0, 0),
			"estimates"},
		{topk.ExactAsSorted, "one that estimates, and another top", check.Held, func(e *evidence) {
			contract(0, 0.1, 0)(e)
			e.top()[0].Key, e.top()[1].Key = 2, 1
		}, "estimates"},
		{topk.ExactAsSorted, "no windows", check.Undecided, noWindows, "no windows"},

		{topk.MergedAsOne, "within the bound", check.Held, func(e *evidence) {
			contract(0, 0.1, 0)(e)
			e.estimate(1).Count++
		}, ""},
		{topk.MergedAsOne, "beyond it", check.Broken, func(e *evidence) { e.estimate(1).OnePass++ },
			"in one pass"},
		{topk.MergedAsOne, "nothing was merged", check.Undecided, func(e *evidence) {
			e.windowRow(10).Shards, e.windowRow(11).Shards = 1, 1
		}, "two partitions"},

		{topk.UniquesBounded, "too many keys", check.Broken, func(e *evidence) {
			e.windowRow(10).Uniques += 2
		}, "keys"},
		{topk.UniquesBounded, "too few events", check.Broken, func(e *evidence) {
			e.windowRow(10).Approx -= 3
		}, "events"},
		{topk.UniquesBounded, "no windows", check.Undecided, noWindows, "no windows"},

		{topk.ReadsBounded, "more events than there are", check.Broken, func(e *evidence) {
			reply(`{"total":19,"items":[{"key":1,"count":6},{"key":2,"count":6}]}`)(e)
		}, "19 events"},
		{topk.ReadsBounded, "more keys than were asked for", check.Broken, reply(
			`{"total":18,"items":[{"key":1,"count":6},{"key":2,"count":6},{"key":3,"count":5}]}`), "2 keys"},
		{topk.ReadsBounded, "not sorted", check.Broken, reply(
			`{"total":18,"items":[{"key":2,"count":6},{"key":1,"count":6}]}`), "not sorted"},
		{topk.ReadsBounded, "more of a key than events", check.Broken, reply(
			`{"total":18,"items":[{"key":2,"count":66}]}`), "in the top of 66 in all"},
		{topk.ReadsBounded, "more of all keys than events", check.Broken, reply(
			`{"total":9,"items":[{"key":1,"count":5},{"key":2,"count":5}]}`), "in the top of 10 in all"},
		{topk.ReadsBounded, "a key twice", check.Broken, reply(
			`{"total":18,"items":[{"key":1,"count":6},{"key":1,"count":5}]}`), "key 1 is twice"},
		{topk.ReadsBounded, "less of a key than there is in the end", check.Held, reply(
			`{"total":10,"items":[{"key":2,"count":4}]}`), ""},
		{topk.ReadsBounded, "less of it than events are missing", check.Broken, reply(
			`{"total":17,"items":[{"key":1,"count":6},{"key":2,"count":4}]}`), "too low, of which 17"},
		{topk.ReadsBounded, "less of it, as it may be", check.Held, func(e *evidence) {
			contract(0.1, 0, 0)(e)
			reply(`{"total":18,"items":[{"key":1,"count":6},{"key":2,"count":5}]}`)(e)
		}, ""},
		{topk.ReadsBounded, "none of a key that was above the others", check.Broken, reply(
			`{"total":18,"items":[{"key":3,"count":5}]}`), "key 1 occurred 6 times"},
		{topk.ReadsBounded, "more of a key than there is in the end", check.Broken, reply(
			`{"total":18,"items":[{"key":2,"count":7},{"key":1,"count":6}]}`), "occurred 6 times in the end"},
		{topk.ReadsBounded, "more of it, as it may be", check.Held, func(e *evidence) {
			contract(0, 0.1, 0)(e)
			reply(`{"total":18,"items":[{"key":2,"count":8},{"key":1,"count":6}]}`)(e)
		}, ""},
		{topk.ReadsBounded, "more than it may be", check.Broken, func(e *evidence) {
			contract(0, 0.1, 0)(e)
			reply(`{"total":18,"items":[{"key":2,"count":9},{"key":1,"count":6}]}`)(e)
		}, "more than 0.1 of 18 events too high"},
		{topk.ReadsBounded, "more of one that may be missed", check.Held, func(e *evidence) {
			e.P.Misses = 0.01
			contract(0, 0.1, 0.01)(e)
			reply(`{"total":18,"items":[{"key":2,"count":9},{"key":1,"count":6}]}`)(e)
		}, "1 of 2 are beyond the bound, and 2 may be"},
		{topk.ReadsBounded, "no keys were read", check.Undecided, reply(`{"items":[]}`),
			"0 reads had events and keys"},
		{topk.ReadsBounded, "no events were read", check.Undecided, func(e *evidence) {
			reply(`{"total":0,"items":[{"key":2,"count":0}]}`)(e)
		}, "0 reads had events and keys"},
		{topk.ReadsBounded, "one of twenty had events", check.Held, empty(19), ""},
		{topk.ReadsBounded, "one of more than twenty had", check.Undecided, empty(20),
			"1 reads had events and keys, and 20 had none"},
		{topk.ReadsBounded, "what is no reply", check.Broken, reply(`[`), "cannot be read"},
		{topk.ReadsBounded, "nothing was read", check.Undecided, func(e *evidence) {
			e.Records = e.Records[:3]
		}, "0 reads had events and keys"},
	})
}

func noWindowsAndLog(e *evidence) { e.Audit.Windows, e.Audit.Log = nil, nil }

// reply exchanges what was read.
func reply(body string) func(*evidence) {
	return func(e *evidence) { e.Records[3].Reply.Body = []byte(body) }
}

// empty adds reads before anything was counted.
func empty(reads int) func(*evidence) {
	return func(e *evidence) {
		for range reads {
			e.Records = append(e.Records, e.Records[3])
			e.Records[len(e.Records)-1].Reply = history.Reply{Body: []byte(`{"items":[]}`)}
		}
	}
}
