package writeheavy_test

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"stampede/harness/check"
	"stampede/harness/history"
	"stampede/harness/suttest"
	"stampede/systems/writeheavy"
)

// The adds of the small run: two to counter 1 and one to counter 2, and those of a batch.
const (
	first, second, third = 1024, 2048, 3072
	batch, good, bad     = 4096, 4097, 4098
)

// smallRun is a run that every invariant accepts: the first add is sent twice, a batch has an add
// that cannot be made, another one has ten to counter 2, and a reader reads counter 1 twice.
func smallRun() *evidence { return smallRunOf(true) }

func smallRunOf(log bool) *evidence {
	e := &evidence{suttest.NewEvidence[writeheavy.Audit](writeheavy.System(), crowd())}
	c := newCounters(log, 2)
	do := func(kind string, request any) {
		op := c.api.Op(kind, request)
		reply, err := c.api.Do(context.Background(), c, op)
		n := uint64(len(e.Records))
		start := 10 * ms * time.Duration(n+1)
		r := history.Record{Seq: n, Op: op, Reply: reply, Outcome: history.OK, Intended: start,
			Start: start, End: start + 5*ms}
		if err != nil {
			suttest.Deny(&r, err)
		}
		e.Records = append(e.Records, r)
	}
	add := func(id, key uint64, delta int64) {
		do(writeheavy.KindAdd, writeheavy.AddRequest{ID: id, Key: key, User: 3, Delta: delta,
			Class: writeheavy.ClassNormal})
	}
	read := func(id uint64) {
		do(writeheavy.KindRead, writeheavy.ReadRequest{ID: id, Key: 1, Reader: 1})
	}
	add(first, 1, 5)
	read(first + 1023)
	add(second, 1, -2)
	add(first, 1, 5)
	add(third, 2, 7)
	do(writeheavy.KindBatch, writeheavy.BatchRequest{ID: batch, Records: []writeheavy.Record{
		{ID: good, Key: 1, User: 4, Delta: 1, Class: writeheavy.ClassLow},
		{ID: bad, Key: 2, User: 4, Delta: 0, Class: writeheavy.ClassLow}}})
	crowd := writeheavy.BatchRequest{ID: 5120}
	for id := uint64(5121); id < 5131; id++ {
		crowd.Records = append(crowd.Records, writeheavy.Record{ID: id, Key: 2, User: id, Delta: 1,
			Class: writeheavy.ClassHigh})
	}
	do(writeheavy.KindBatch, crowd)
	read(second + 1023)
	e.Audit = c.Audit()
	return e
}

// op is the first record of an operation.
func (e *evidence) op(id uint64) *history.Record {
	return suttest.PickFrom(e.Records, func(int) int { return 0 }, func(r *history.Record) bool {
		return r.Op.ID == id
	})
}

// made is an add in a counter.
func (e *evidence) made(id uint64) *writeheavy.OpRow {
	return suttest.PickFrom(e.Audit.Ops, func(int) int { return 0 }, func(o *writeheavy.OpRow) bool {
		return o.ID == id
	})
}

// without removes an add from a counter, but for the log.
func without(id uint64) func(*evidence) {
	return func(e *evidence) {
		for i, o := range e.Audit.Ops {
			if o.ID == id {
				e.Audit.Ops = append(e.Audit.Ops[:i:i], e.Audit.Ops[i+1:]...)
				return
			}
		}
	}
}

// asOfNow is the small run of counters without a log, changed.
func asOfNow(change func(*evidence)) func(*evidence) {
	return func(e *evidence) {
		*e = *smallRunOf(false)
		change(e)
	}
}

func nothing(*evidence) {}

// died declares that an edge may lose two adds, and ends a process of the API.
func died(e *evidence) {
	e.Audit.Contract.Accepted = 2
	e.Windows = []history.Window{{Kind: history.FaultWindow, Fault: "kill api-1", Start: 20 * ms,
		End: 90 * ms}}
}

// moved is the small run of counters that move, whose audit is changed.
func moved(change func(*writeheavy.Audit)) func(*evidence) {
	return asOfNow(func(e *evidence) { change(&e.Audit) })
}

// placed is one of which an add at a map is changed.
func placed(id uint64, at int64, change func(*writeheavy.Placed)) func(*evidence) {
	return moved(func(a *writeheavy.Audit) {
		for i := range a.Placed {
			if p := &a.Placed[i]; p.ID == id && p.Map == at {
				change(p)
			}
		}
	})
}

// lacks removes an add from a map.
func (e *evidence) lacks(id uint64, at int64) {
	e.Audit.Placed = slices.DeleteFunc(e.Audit.Placed, func(p writeheavy.Placed) bool {
		return p.ID == id && p.Map == at
	})
}

// shed adds attempts at adds, each in the words of its decision, "high refused", and answered so;
// "low refused, and done" is answered as done. More important classes may have no burst.
func shed(list ...string) func(*evidence) {
	return asOfNow(func(e *evidence) {
		for i, words := range list {
			class, result, _ := strings.Cut(words, " ")
			result, wrong, _ := strings.Cut(result, ", ")
			req := writeheavy.AddRequest{ID: uint64(100+i) << 10, Key: 1, User: 1, Delta: 1, Class: class}
			r := history.Record{Seq: uint64(len(e.Records)),
				Op:      writeheavy.API().Op(writeheavy.KindAdd, req),
				Outcome: history.OK, Start: time.Second, Intended: time.Second, End: time.Second + ms}
			if (result != writeheavy.DecisionTaken) != (wrong != "") {
				suttest.Deny(&r, writeheavy.ErrShed)
			}
			e.Records = append(e.Records, r)
			decide := func(result string) {
				e.Audit.Decisions = append(e.Audit.Decisions,
					writeheavy.Decision{ID: req.ID, Class: class, Result: result})
			}
			if result == writeheavy.DecisionDropped {
				decide(writeheavy.DecisionTaken)
			}
			decide(result)
		}
	})
}

// dead is the small run of a design that commits asynchronously, whose Postgres died at a time.
func dead(at time.Duration, change func(*evidence)) func(*evidence) {
	return asOfNow(func(e *evidence) {
		e.Audit.Contract.Async = 600
		e.Windows = []history.Window{{Kind: history.FaultWindow, Name: "dies", Fault: "kill postgres",
			Start: at, End: at + ms}}
		change(e)
	})
}

type clause suttest.Case[*evidence]

// TestClauses: each clause accepts what is right and refuses what is wrong.
func TestClauses(t *testing.T) {
	const done = "answered 1 times as done, and let in 0 times"
	noOps := func(e *evidence) { e.Audit.Ops = nil }
	value := func(id uint64, to int64) func(*evidence) {
		return func(e *evidence) {
			var v writeheavy.Value
			_ = json.Unmarshal(e.op(id).Reply.Body, &v)
			v.Value = to
			e.op(id).Reply.Body, _ = json.Marshal(v)
		}
	}
	unknown := func(id uint64) func(*evidence) {
		return func(e *evidence) { e.op(id).Outcome, e.op(id).Reply = history.Unknown, history.Reply{} }
	}
	reply := func(body string) func(*evidence) {
		return func(e *evidence) { e.op(batch).Reply.Body = []byte(body) }
	}
	later := func(body string) func(*evidence) {
		return func(e *evidence) {
			r := e.op(second + 1023)
			r.Start, r.End, r.Reply.Body = time.Second, time.Second+ms, []byte(body)
		}
	}
	vague := func(e *evidence) {
		body := &e.op(5120).Reply.Body
		*body = []byte(strings.ReplaceAll(string(*body), `"ok"`, `"unknown"`))
	}
	beside := func(body string) func(*evidence) {
		return func(e *evidence) {
			for range 20 {
				e.Records = append(e.Records, *e.op(batch), *e.op(5120))
				e.Records[len(e.Records)-2].Reply.Body = []byte(body)
			}
		}
	}
	suttest.Clauses(t, proof(), smallRun, []clause{
		{writeheavy.AckedKept, "all of it", check.Held, asOfNow(nothing), ""},
		{writeheavy.AckedKept, "one of unknown outcome is lost", check.Held, func(e *evidence) {
			unknown(third)(e)
			without(third)(e)
		}, ""},
		{writeheavy.AckedKept, "an acknowledged one is lost", check.Broken, without(third),
			"operation 3072"},
		{writeheavy.AckedKept, "one of a batch is lost", check.Broken, without(good), "operation 4097"},
		{writeheavy.AckedKept, "another delta", check.Broken, func(e *evidence) { e.made(third).Delta++ },
			"was asked to add 7"},
		{writeheavy.AckedKept, "another user's", check.Broken, func(e *evidence) { e.made(third).User++ },
			"user-4"},
		{writeheavy.AckedKept, "lost with an edge", check.Held, func(e *evidence) {
			died(e)
			without(third)(e)
		}, ""},
		{writeheavy.AckedKept, "an edge lost more than it declares", check.Broken, func(e *evidence) {
			died(e)
			for _, id := range []uint64{first, third, good} {
				without(id)(e)
			}
		}, "has no effect"},
		{writeheavy.AckedKept, "an edge lost what two may", check.Broken, func(e *evidence) {
			died(e)
			e.Audit.Contract.Accepted = 1
			later := e.Windows[0]
			later.Start, later.End = time.Minute, time.Minute+ms
			e.Windows = append(e.Windows, later)
			without(first)(e)
			without(third)(e)
		}, "has no effect"},
		{writeheavy.AckedKept, "lost by an edge that could not send it for long", check.Held,
			func(e *evidence) {
				died(e)
				e.Windows[0].Start, e.Windows[0].End = time.Minute, time.Minute+ms
				e.Windows = append(e.Windows, history.Window{Kind: history.FaultWindow,
					Fault: "pause redis", Start: 20 * ms, End: 58 * time.Second})
				without(third)(e)
			}, ""},
		{writeheavy.AckedKept, "lost long before an edge died", check.Broken, func(e *evidence) {
			died(e)
			e.Windows[0].Start, e.Windows[0].End = time.Minute, time.Minute+ms
			without(third)(e)
		}, "has no effect"},
		{writeheavy.AckedKept, "lost, and no edge died", check.Broken, func(e *evidence) {
			e.Audit.Contract.Accepted = 2
			without(third)(e)
		}, "operation 3072"},
		{writeheavy.AckedKept, "declares more than it may", check.Undecided, func(e *evidence) {
			e.Audit.Contract.Accepted = 1_000_000
		}, "the most allowed is 1000"},
		{writeheavy.AckedKept, "no adds", check.Undecided, noOps, "no ops"},

		{writeheavy.OncePerOp, "an add is there twice", check.Broken, func(e *evidence) {
			e.Audit.Ops = append(e.Audit.Ops, e.Audit.Ops[0])
		}, "operation 1024"},
		{writeheavy.OncePerOp, "a partial sum is there twice", check.Broken, func(e *evidence) {
			e.Audit.Partials = append(e.Audit.Partials, e.Audit.Partials[0])
		}, "twice"},
		{writeheavy.OncePerOp, "a sum is not that of its adds", check.Broken, func(e *evidence) {
			e.Audit.Partials[1].Sum++
		}, "not those of their adds"},
		{writeheavy.OncePerOp, "denied when it is sent again", check.Broken, func(e *evidence) {
			suttest.Deny(&e.Records[3], writeheavy.ErrRejected)
		}, "denied"},
		{writeheavy.OncePerOp, "nothing is sent again", check.Undecided, func(e *evidence) {
			e.Records = append(e.Records[:3:3], e.Records[4:]...)
		}, "no add was acknowledged again"},

		{writeheavy.NothingNew, "a refused add is made", check.Broken, func(e *evidence) {
			suttest.Deny(e.op(third), writeheavy.ErrShed)
		}, "was refused"},
		{writeheavy.NothingNew, "what nobody sent is made", check.Broken, func(e *evidence) {
			e.made(third).ID = 9999
		}, "never requested"},
		{writeheavy.NothingNew, "a refused one of a batch is made", check.Broken,
			reply(`{"results":[{"op_id":4097,"result":"shed"},{"op_id":4098,"result":"ok"}]}`),
			"was refused"},
		{writeheavy.NothingNew, "what cannot be made is made", check.Broken, func(e *evidence) {
			e.Audit.Ops = append(e.Audit.Ops, writeheavy.OpRow{ID: bad, Key: 2, User: 4})
		}, "which cannot be added"},
		{writeheavy.NothingNew, "another dead letter", check.Broken, func(e *evidence) {
			e.Audit.Dead[0].Key = 9
		}, "is not what was sent"},
		{writeheavy.NothingNew, "nothing is there", check.Undecided, func(e *evidence) {
			e.Audit.Ops, e.Audit.Partials = []writeheavy.OpRow{}, nil
		}, "no effect"},

		{writeheavy.Conserved, "they are", check.Held, asOfNow(nothing), ""},
		{writeheavy.Conserved, "in several parts", check.Held, func(e *evidence) {
			c := e.Audit.Counters[0]
			e.Audit.Counters[0].Value -= 3
			e.Audit.Counters = append(e.Audit.Counters,
				writeheavy.CounterRow{Key: c.Key, Shard: 1, Value: 3})
		}, ""},
		{writeheavy.Conserved, "one too many", check.Broken, func(e *evidence) {
			e.Audit.Counters[0].Value++
		}, "(+1)"},
		{writeheavy.Conserved, "a counter is missing", check.Broken, func(e *evidence) {
			e.Audit.Counters = e.Audit.Counters[:1]
		}, "is 0"},
		{writeheavy.Conserved, "in the log and nowhere else", check.Broken, func(e *evidence) {
			e.Audit.Dead = []writeheavy.DeadRow{}
		}, "no dead letter"},
		{writeheavy.Conserved, "another delta in the log", check.Broken, func(e *evidence) {
			e.Audit.Log[0].Delta++
		}, "is in the log with 6"},
		{writeheavy.Conserved, "not in the log", check.Broken, func(e *evidence) {
			e.Audit.Log = e.Audit.Log[:4]
		}, "not in the log"},
		{writeheavy.Conserved, "adds come one by one", check.Undecided, func(e *evidence) {
			e.op(5120).Outcome = history.Unknown
		}, "adds came to a counter together"},

		{writeheavy.ReadsExact, "one more than there was", check.Broken, value(first+1023, 6), "as of 1"},
		{writeheavy.ReadsExact, "as of another position", check.Broken, func(e *evidence) {
			e.op(second + 1023).Reply.Body = []byte(`{"value":4,"as_of":1}`)
		}, "as of 1"},
		{writeheavy.ReadsExact, "of a quarter of what was there long before", check.Held,
			later(`{"value":5,"as_of":1}`), ""},
		{writeheavy.ReadsExact, "of nothing that was there long before", check.Undecided,
			later(`{"value":0,"as_of":0}`), "reads had 0 of the 3 adds that were acknowledged 180ms before"},
		{writeheavy.ReadsExact, "no reply", check.Broken, func(e *evidence) {
			e.op(first + 1023).Reply.Body = []byte(`[`)
		}, "cannot be read"},
		{writeheavy.ReadsExact, "as of now", check.Held, asOfNow(nothing), ""},
		{writeheavy.ReadsExact, "as of now, before an acknowledged add", check.Broken,
			asOfNow(value(second+1023, 3)), "are possible"},
		{writeheavy.ReadsExact, "as of now, with one of unknown outcome", check.Held,
			asOfNow(func(e *evidence) {
				unknown(second)(e)
				value(second+1023, 6)(e)
			}), ""},
		{writeheavy.ReadsExact, "as of now, without what an edge lost", check.Held,
			asOfNow(func(e *evidence) {
				died(e)
				without(good)(e)
				value(second+1023, 3)(e)
			}), ""},
		{writeheavy.ReadsExact, "a position that is not declared", check.Broken,
			asOfNow(func(e *evidence) { e.op(first + 1023).Reply.Body = []byte(`{"value":5,"as_of":1}`) }),
			"declares no positions"},
		{writeheavy.ReadsExact, "nothing was read", check.Undecided, func(e *evidence) {
			e.op(first+1023).Outcome, e.op(second+1023).Outcome = history.Unknown, history.Unknown
		}, "nothing was read"},

		{writeheavy.AsOfRises, "as of now", check.Held, asOfNow(nothing), "as of now"},
		{writeheavy.AsOfRises, "it falls", check.Broken, func(e *evidence) {
			e.op(second + 1023).Reply.Body = []byte(`{"as_of":0}`)
		}, "reader-1 reading counter-1 was shown version 0 from 80ms on, and 1"},
		{writeheavy.AsOfRises, "it falls while the other read is under way", check.Undecided,
			func(e *evidence) {
				e.op(second + 1023).Reply.Body = []byte(`{"as_of":0}`)
				e.op(first + 1023).End = 1000 * ms
			}, "no client has read"},

		{writeheavy.ByRecord, "no reply for one", check.Broken, reply(`{"results":[]}`),
			"not one for each"},
		{writeheavy.ByRecord, "another one's reply", check.Broken,
			reply(`{"results":[{"op_id":4098,"result":"ok"},{"op_id":4097,"result":"ok"}]}`),
			"not one for each"},
		{writeheavy.ByRecord, "a word that says nothing", check.Broken,
			reply(`{"results":[{"op_id":4097,"result":"ok"},{"op_id":4098,"result":"fine"}]}`),
			`operation 4098 of batch 4096 was answered with "fine"`},
		{writeheavy.ByRecord, "most are of unknown outcome", check.Undecided, vague,
			"10 adds of batches were answered as unknown and 2 otherwise, and of those alone 0 and 4"},
		{writeheavy.ByRecord, "and so are adds alone", check.Held, func(e *evidence) {
			vague(e)
			unknown(third)(e)
		}, ""},
		{writeheavy.ByRecord, "in a fault", check.Held, func(e *evidence) {
			vague(e)
			e.Windows = []history.Window{{Kind: history.FaultWindow, Fault: "pause postgres",
				Start: e.op(5120).Start, End: e.op(5120).End}}
		}, ""},
		{writeheavy.ByRecord, "refused with the other", check.Broken, reply(
			`{"results":[{"op_id":4097,"result":"rejected"},{"op_id":4098,"result":"rejected"}]}`),
			"operation 4097 was told"},
		{writeheavy.ByRecord, "what can be made is refused beside what cannot", check.Broken,
			beside(`{"results":[{"op_id":4097,"result":"refused"},{"op_id":4098,"result":"ok"}]}`),
			"were refused in 20 of 21 batches with one that cannot, and in 0 of 21 others"},
		{writeheavy.ByRecord, "what can be made is made beside what cannot", check.Held,
			beside(`{"results":[{"op_id":4097,"result":"ok"},{"op_id":4098,"result":"ok"}]}`), ""},
		{writeheavy.ByRecord, "it was refused and is no dead letter", check.Held, func(e *evidence) {
			reply(`{"results":[{"op_id":4097,"result":"ok"},{"op_id":4098,"result":"rejected"}]}`)(e)
			e.Audit.Dead = []writeheavy.DeadRow{}
		}, ""},
		{writeheavy.ByRecord, "acknowledged and no dead letter", check.Broken, func(e *evidence) {
			e.Audit.Dead = []writeheavy.DeadRow{}
		}, "no dead letter"},
		{writeheavy.ByRecord, "a dead letter that can be made", check.Broken, func(e *evidence) {
			e.Audit.Dead[0].Delta = 1
		}, "can be made"},
		{writeheavy.ByRecord, "a dead letter too soon", check.Broken, func(e *evidence) {
			e.Audit.Dead[0].Tries = 2
		}, "after 2 attempts"},
		{writeheavy.ByRecord, "a dead letter twice, of a log that has it twice", check.Held,
			func(e *evidence) { e.Audit.Dead = append(e.Audit.Dead, e.Audit.Dead[0]) }, ""},
		{writeheavy.ByRecord, "a batch that is too large", check.Broken, func(e *evidence) {
			e.Audit.Batches[0].Records = 501
		}, "has 501 adds"},
		{writeheavy.ByRecord, "batches of fewer adds than there are", check.Broken, func(e *evidence) {
			e.Audit.Batches = e.Audit.Batches[1:]
		}, "have 13 adds, and there are 14"},
		{writeheavy.OneOwner, "it has", check.Held, asOfNow(nothing), ""},
		{writeheavy.OneOwner, "nothing moves", check.Held, nothing, "no keys move"},
		{writeheavy.OneOwner, "an epoch is left out", check.Broken, moved(func(a *writeheavy.Audit) {
			a.Handovers[1].Epoch++
		}), "in epoch 4, after owners in the maps [1 2]"},
		{writeheavy.OneOwner, "it goes from where it is not", check.Broken,
			moved(func(a *writeheavy.Audit) { a.Handovers[1].Source = 1 }), "from map 1 to map 1"},
		{writeheavy.OneOwner, "two took an add", check.Broken, placed(third, 2,
			func(p *writeheavy.Placed) { p.Came = "owner" }), "taken in map 1 and in map 2"},
		{writeheavy.OneOwner, "no owner took it", check.Broken, placed(third, 1,
			func(p *writeheavy.Placed) { p.Came = "copy" }), "no owner has taken it"},
		{writeheavy.OneOwner, "another epoch on the other side", check.Broken, placed(third, 2,
			func(p *writeheavy.Placed) { p.Epoch = 2 }), "with epoch 2"},
		{writeheavy.OneOwner, "the old owner took it in the new one's epoch", check.Broken,
			moved(func(a *writeheavy.Audit) {
				for i := range a.Placed {
					if a.Placed[i].ID == third {
						a.Placed[i].Epoch = 2
					}
				}
			}), "whose owners were in the maps [1 2 1]"},
		{writeheavy.OneOwner, "a counter in two ranges", check.Broken, placed(first, 1,
			func(p *writeheavy.Placed) { p.Range = 2 }), "in the ranges"},
		{writeheavy.OneOwner, "the old one took it when the new one had acknowledged", check.Broken,
			moved(func(a *writeheavy.Audit) {
				// The first two as if they had been taken in epoch 2, and the next one in epoch 1.
				for i := range a.Placed {
					if p := &a.Placed[i]; p.ID == first || p.ID == second {
						p.Epoch, p.Map = 2, 3-p.Map
					}
				}
			}), "was acknowledged in a later one"},
		{writeheavy.OneOwner, "no range moved", check.Undecided, moved(func(a *writeheavy.Audit) {
			a.Handovers = nil
			a.Placed = slices.DeleteFunc(a.Placed, func(p writeheavy.Placed) bool { return p.Epoch > 1 })
		}), "no range got another owner"},
		{writeheavy.OneOwner, "none went back", check.Undecided, moved(func(a *writeheavy.Audit) {
			a.Handovers = a.Handovers[:1]
			a.Placed = slices.DeleteFunc(a.Placed, func(p writeheavy.Placed) bool { return p.Epoch > 2 })
		}), "no range went back"},
		{writeheavy.OneOwner, "nobody was turned away", check.Undecided, moved(func(a *writeheavy.Audit) {
			a.Turned = 0
		}), "no longer the owner"},

		{writeheavy.MovedWhole, "it is", check.Held, asOfNow(nothing), ""},
		{writeheavy.MovedWhole, "nothing moves", check.Held, nothing, "no keys move"},
		{writeheavy.MovedWhole, "the new side lacks one", check.Broken, asOfNow(func(e *evidence) {
			e.lacks(first, 2)
		}), "map 2 lacked it when epoch 2 began"},
		{writeheavy.MovedWhole, "the old side lacks one", check.Broken, asOfNow(func(e *evidence) {
			e.lacks(5123, 1)
		}), "map 1 lacked it when epoch 3 began"},
		{writeheavy.MovedWhole, "the new side gets one when it has begun", check.Broken, placed(first, 2,
			func(p *writeheavy.Placed) { p.In = 2 }), "that had begun epoch 2"},
		{writeheavy.OneOwner, "an epoch that has not begun", check.Broken,
			moved(func(a *writeheavy.Audit) { a.Handovers = a.Handovers[:1] }), "not begun"},
		{writeheavy.MovedWhole, "one is there twice", check.Broken, moved(func(a *writeheavy.Audit) {
			a.Placed = append(a.Placed, a.Placed[0])
		}), "twice in map"},
		{writeheavy.MovedWhole, "a side is not its adds", check.Broken, moved(func(a *writeheavy.Audit) {
			a.Sides[0].Value++
		}), "(+1)"},
		{writeheavy.MovedWhole, "a side lacks a counter", check.Broken, moved(func(a *writeheavy.Audit) {
			a.Sides = a.Sides[1:]
		}), "and is not there"},
		{writeheavy.MovedWhole, "another delta on a side", check.Broken, placed(third, 2,
			func(p *writeheavy.Placed) { p.Delta++ }), "was not sent so"},
		{writeheavy.MovedWhole, "nothing was written while it was copied", check.Undecided,
			moved(func(a *writeheavy.Audit) {
				for i := range a.Placed {
					if a.Placed[i].Came == "twin" && a.Placed[i].Epoch == 1 {
						a.Placed[i].Came = "copy"
					}
				}
			}), "copied while it was written"},
		{writeheavy.MovedWhole, "nothing is ever written to both sides", check.Held,
			moved(func(a *writeheavy.Audit) {
				for i := range a.Placed {
					a.Placed[i].Came = strings.Replace(a.Placed[i].Came, "twin", "copy", 1)
				}
			}), ""},

		{writeheavy.ByRecord, "no batch", check.Undecided, func(e *evidence) {
			e.op(batch).Outcome = history.Unknown
		}, "no batch had"},

		{writeheavy.ShedAsTold, "nothing is shed", check.Held, nothing, "nothing is shed"},
		{writeheavy.ShedAsTold, "nobody was shed", check.Undecided, asOfNow(nothing), "nothing was shed"},
		{writeheavy.ShedAsTold, "the log is elsewhere", check.Undecided,
			func(e *evidence) { e.Audit.Contract.Sheds = true }, "no single process has the log"},
		{writeheavy.ShedAsTold, "somebody is told, and there is no log", check.Undecided,
			func(e *evidence) { suttest.Deny(&e.Records[0], writeheavy.ErrShed) }, "has the log"},
		{writeheavy.ShedAsTold, "once", check.Undecided, shed("low refused"), "class was refused twice"},
		{writeheavy.ShedAsTold, "each class, the least important first", check.Held,
			shed("low refused", "normal refused", "high refused", "normal refused", "high dropped"),
			"refused adds of class high, 2 of normal and 1 of low"},
		{writeheavy.ShedAsTold, "an attempt of unknown outcome is shed", check.Held, func(e *evidence) {
			shed("low refused", "low refused")(e)
			unknown(100 << 10)(e)
		}, ""},
		{writeheavy.ShedAsTold, "an attempt never came", check.Held, func(e *evidence) {
			shed("low refused", "low refused", "low taken")(e)
			unknown(102 << 10)(e)
			e.Audit.Decisions = e.Audit.Decisions[:len(e.Audit.Decisions)-1]
		}, ""},
		{writeheavy.ShedAsTold, "one that cannot be made is refused before that", check.Held,
			func(e *evidence) {
				shed("low refused", "low refused")(e)
				e.Audit.Decisions = slices.DeleteFunc(e.Audit.Decisions,
					func(d writeheavy.Decision) bool { return d.ID == bad })
			}, ""},
		{writeheavy.ShedAsTold, "and done", check.Broken, shed("low refused, and done"), done},
		{writeheavy.ShedAsTold, "dropped and done", check.Broken, shed("low dropped, and done"), done},
		{writeheavy.ShedAsTold, "taken and told that it is shed", check.Broken,
			shed("low taken, and told"), "told 1 times that it is shed, and was shed 0 times"},
		{writeheavy.ShedAsTold, "decided on twice", check.Broken, asOfNow(func(e *evidence) {
			e.Audit.Decisions = append(e.Audit.Decisions, e.Audit.Decisions[2])
		}), "sent 2 times, and decided on 3 times"},
		{writeheavy.ShedAsTold, "nobody sent it", check.Broken, asOfNow(func(e *evidence) {
			e.Audit.Decisions = append(e.Audit.Decisions, writeheavy.Decision{ID: 9,
				Class: writeheavy.ClassLow, Result: writeheavy.DecisionTaken})
		}), "sent 0 times"},
		{writeheavy.ShedAsTold, "another class", check.Broken, asOfNow(func(e *evidence) {
			e.Audit.Decisions[0].Class = writeheavy.ClassHigh
		}), `is in the log as "high"`},
		{writeheavy.ShedAsTold, "a more important one is taken in between", check.Held,
			shed("normal refused", "high taken", "low taken", "normal refused", "normal refused"), ""},
		{writeheavy.ShedAsTold, "a less important one is taken in between", check.Broken,
			shed("high refused", "low taken", "high refused"), "1 less important ones taken in between"},
		{writeheavy.ShedAsTold, "it is taken from what its class had saved", check.Held,
			func(e *evidence) {
				shed("high refused", "low taken", "high refused")(e)
				e.Audit.Contract.Bursts = []int64{1, 1, 1}
			}, ""},
		{writeheavy.ShedAsTold, "classes are not told apart", check.Held, func(e *evidence) {
			shed("high refused", "low taken", "high refused")(e)
			e.Audit.Contract.Bursts = nil
		}, ""},
		{writeheavy.ShedAsTold, "a burst that excuses everything", check.Undecided,
			asOfNow(func(e *evidence) { e.Audit.Contract.Bursts = []int64{0, 0, 1 << 40} }),
			"the most allowed is 5000"},

		{writeheavy.LastIsLost, "no database may lose anything", check.Held, nothing, "may be lost"},
		{writeheavy.LastIsLost, "nothing is lost", check.Held, dead(58*ms, nothing), ""},
		{writeheavy.LastIsLost, "the last is lost", check.Held, dead(58*ms, without(third)), ""},
		{writeheavy.LastIsLost, "one in between is lost", check.Broken, dead(58*ms, without(second)),
			"operation 2048 was acknowledged at 35ms and is lost, and operation 3072"},
		{writeheavy.LastIsLost, "what came behind it was sent again later", check.Held,
			dead(58*ms, func(e *evidence) {
				without(second)(e)
				again := *e.op(third)
				again.Seq, again.Start, again.End = uint64(len(e.Records)), 90*ms, 95*ms
				e.Records = append(e.Records, again)
			}), ""},
		{writeheavy.LastIsLost, "no database died", check.Broken, dead(58*ms, func(e *evidence) {
			e.Windows = nil
			without(third)(e)
		}), "no database died"},
		{writeheavy.LastIsLost, "it died much later", check.Broken, dead(time.Minute, without(third)),
			"no database died in the 2.6s after it"},
		{writeheavy.LastIsLost, "a time that excuses everything", check.Undecided,
			dead(58*ms, func(e *evidence) { e.Audit.Contract.Async = 1 << 40 }),
			"the most allowed is 30000"},
		{writeheavy.AckedKept, "lost with the database", check.Held, dead(58*ms, without(third)), ""},
		{writeheavy.AckedKept, "lost long before it", check.Broken, dead(time.Minute, without(third)),
			"operation 3072"},
		{writeheavy.ReadsExact, "a read lacks what the database lost", check.Held,
			dead(78*ms, func(e *evidence) {
				without(good)(e)
				value(second+1023, 3)(e)
			}), ""},
		{writeheavy.ReadsExact, "a read lacks what it did not lose", check.Broken,
			dead(78*ms, value(second+1023, 3)), "are possible"},
	})
}
