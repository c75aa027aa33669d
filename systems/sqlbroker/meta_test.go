package sqlbroker_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"stampede/harness/check"
	"stampede/harness/history"
	"stampede/harness/sut"
	"stampede/harness/suttest"
	"stampede/systems/sqlbroker"
)

// drawRun is any run of a correct broker with any amount of trouble.
func drawRun(t *rapid.T) *evidence {
	p := hurried()
	share := rapid.Float64Range(0, 1)
	part := rapid.Float64Range(0, 0.25)
	p.Queues = rapid.IntRange(1, 4).Draw(t, "queues")
	p.Worked = rapid.IntRange(0, p.Queues).Draw(t, "worked")
	p.Batch = rapid.IntRange(1, 5).Draw(t, "batch")
	p.Grouped, p.Groups = share.Draw(t, "grouped"), rapid.IntRange(1, 5).Draw(t, "groups")
	p.Priorities = rapid.IntRange(1, 3).Draw(t, "priorities")
	p.Delayed, p.Poison = share.Draw(t, "delayed"), share.Draw(t, "poison")
	p.Receives = 3 * share.Draw(t, "receives")
	p.ReceiveBatch = rapid.IntRange(1, 6).Draw(t, "receive batch")
	p.Late, p.Extend = part.Draw(t, "late"), part.Draw(t, "extend")
	p.Release, p.Abandon = part.Draw(t, "release"), part.Draw(t, "abandon")
	p.Visibility = sut.Duration(rapid.IntRange(20, 400).Draw(t, "visibility_ms")) * sut.Duration(ms)
	p.MaxReceives = rapid.IntRange(1, 5).Draw(t, "max receives")
	p.RetryOnLost = rapid.IntRange(0, 4).Draw(t, "retries")
	mishap := rapid.Float64Range(0, 0.15)
	return runOf(t, rapid.Uint64().Draw(t, "seed"), p, suttest.DrawTrouble(t),
		mishap.Draw(t, "deaths"), mishap.Draw(t, "sleepers"), rapid.IntRange(0, 60).Draw(t, "ops"))
}

// hurried is the default on a clock of milliseconds.
func hurried() sqlbroker.Params {
	p := sqlbroker.DefaultParams()
	p.Queues, p.Worked, p.Groups, p.Poison = 2, 1, 5, 0.1
	p.Visibility, p.MaxReceives = sut.Duration(300*ms), 3
	p.Late, p.Extend, p.Release = 0.2, 0.1, 0.2
	p.Think, p.DelayMost = sut.Duration(50*ms), sut.Duration(50*ms)
	p.BodyBytes = 1
	return p
}

// proof is what the judges are proved by.
func proof() suttest.Proof[*evidence] {
	p := suttest.Proof[*evidence]{Any: drawRun, Judge: (*evidence).judge,
		Some: func(t *rapid.T) *evidence {
			tr := suttest.Trouble{LostRequest: 0.01, LostReply: 0.01, Late: 0.01, Dropped: 0.01}
			return runOf(t, rapid.Uint64().Draw(t, "seed"), hurried(), tr, 0.05, 0.05, 25)
		},
		Whole: func(t tb, seed uint64) *evidence {
			return runOf(t, seed, hurried(), suttest.Trouble{}, 0, 0, 200)
		},
		Judged: func(t *testing.T, c suttest.Case[*evidence], v check.Verdict) {
			undone := c.Invariant == sqlbroker.WorkedOff || strings.Contains(c.Says, "has waited in")
			if undone && v.Unfinished != v.Count {
				t.Errorf("of %d violations %d are of what was not done yet", v.Count, v.Unfinished)
			}
		}}
	for _, inv := range sqlbroker.Invariants(sqlbroker.DefaultParams()) {
		p.Invariants = append(p.Invariants, inv.Name())
	}
	return p
}

// TestCorrectBrokerIsNeverBroken: the judges are sound.
func TestCorrectBrokerIsNeverBroken(t *testing.T) { proof().Sound(t) }

// TestHurriedRunDecidesAll: such parameters exercise every invariant, whatever the seed.
func TestHurriedRunDecidesAll(t *testing.T) { proof().Decides(t, 10) }

// TestCorruptionsAreCaught: the judges are not vacuous.
func TestCorruptionsAreCaught(t *testing.T) {
	suttest.Caught(t, proof(), slices.Concat(storedCorruptions(), deliveredCorruptions()))
}

type corruption suttest.Corruption[*evidence]

// published says that a publisher was told that a message is there.
func (e *evidence) published(op uint64) bool {
	return slices.ContainsFunc(e.records, func(r history.Record) bool {
		return r.Op.ID == op && r.Outcome == history.OK
	})
}

func storedCorruptions() []corruption {
	waiting := func(e *evidence) func(*sqlbroker.MessageAudit) bool {
		return func(m *sqlbroker.MessageAudit) bool {
			return m.State != sqlbroker.StateAcked && m.Receives == 0 && e.published(m.OpID)
		}
	}
	return []corruption{
		{"a message that is lost", sqlbroker.NoLoss, func(e *evidence, pick func(int) int) bool {
			i := suttest.IndexFrom(e.audit.Messages, pick, waiting(e))
			if i >= 0 {
				e.audit.Messages = slices.Delete(e.audit.Messages, i, i+1)
			}
			return i >= 0
		}},
		{"a message from nowhere", sqlbroker.NoPhantom, func(e *evidence, _ func(int) int) bool {
			e.audit.Messages = append(e.audit.Messages, sqlbroker.MessageAudit{OpID: 1 << 40,
				Queue: "queue-1", State: sqlbroker.StateReady})
			return true
		}},
		{"a dead letter that is still in its queue", sqlbroker.OncePlaced,
			func(e *evidence, pick func(int) int) bool {
				i := suttest.IndexFrom(e.audit.Dead, pick, func(*sqlbroker.DeadAudit) bool {
					return true
				})
				if i < 0 {
					return false
				}
				d := e.audit.Dead[i]
				e.audit.Messages = append(e.audit.Messages, sqlbroker.MessageAudit{OpID: d.OpID,
					Index: d.Index, Queue: d.Queue, State: sqlbroker.StatePicked, Receives: d.Receives})
				return true
			}},
		{"a message that nobody works off", sqlbroker.WorkedOff, func(
			e *evidence, pick func(int) int,
		) bool {
			i := suttest.IndexFrom(e.audit.Messages, pick, func(m *sqlbroker.MessageAudit) bool {
				return m.Queue == "queue-1"
			})
			if i >= 0 {
				e.audit.Messages[i].State = sqlbroker.StateReady
			}
			return i >= 0
		}},
		{"an effect that is there twice", sqlbroker.EffectsOnce, func(
			e *evidence, pick func(int) int,
		) bool {
			i := suttest.IndexFrom(e.audit.Effects, pick, func(*sqlbroker.EffectAudit) bool {
				return true
			})
			if i >= 0 {
				e.audit.Effects = append(e.audit.Effects, e.audit.Effects[i])
			}
			return i >= 0
		}},
		{"an effect that is missing", sqlbroker.EffectsOnce, func(
			e *evidence, pick func(int) int,
		) bool {
			i := suttest.IndexFrom(e.audit.Effects, pick, func(x *sqlbroker.EffectAudit) bool {
				return e.published(x.OpID)
			})
			if i >= 0 {
				e.audit.Effects = slices.Delete(e.audit.Effects, i, i+1)
			}
			return i >= 0 && len(e.audit.Effects) > 0
		}},
		{"a message that waits too long", sqlbroker.DeadLetters, func(
			e *evidence, pick func(int) int,
		) bool {
			i := suttest.IndexFrom(e.audit.Messages, pick, func(m *sqlbroker.MessageAudit) bool {
				return m.State == sqlbroker.StateReady && waiting(e)(m)
			})
			if i >= 0 {
				m := &e.audit.Messages[i]
				m.AgeNS, m.WaitsNS = int64(48*time.Hour), int64(time.Minute)
				for q := range e.audit.Queues {
					e.audit.Queues[q].RetentionAgeNS = int64(48 * time.Hour)
				}
			}
			return i >= 0
		}},
		{"a message that nobody was given, and counts", sqlbroker.ReceiveCount,
			func(e *evidence, pick func(int) int) bool {
				i := suttest.IndexFrom(e.audit.Messages, pick, func(m *sqlbroker.MessageAudit) bool {
					return m.Queue == "queue-2" && m.Receives == 0
				})
				if i >= 0 { // more often than answers can have been lost
					e.audit.Messages[i].Receives = len(e.records)
				}
				return i >= 0
			}},
		{"a message that died with its neighbour", sqlbroker.DeadLetters,
			func(e *evidence, pick func(int) int) bool {
				i := suttest.IndexFrom(e.audit.Effects, pick, func(x *sqlbroker.EffectAudit) bool {
					return e.published(x.OpID)
				})
				if i >= 0 {
					x := e.audit.Effects[i]
					e.audit.Dead = append(e.audit.Dead, sqlbroker.DeadAudit{OpID: x.OpID, Index: x.Index,
						Queue: x.Queue, Receives: e.params.MaxReceives, Reason: sqlbroker.DeadReceives,
						AgeNS: int64(50 * ms)})
				}
				return i >= 0
			}},
		{"a message that died young", sqlbroker.DeadLetters, func(
			e *evidence, pick func(int) int,
		) bool {
			i := suttest.IndexFrom(e.audit.Dead, pick, func(*sqlbroker.DeadAudit) bool {
				return true
			})
			if i >= 0 {
				e.audit.Dead[i].Receives--
			}
			return i >= 0
		}},
	}
}

func deliveredCorruptions() []corruption {
	return []corruption{
		{"a delivery that comes too soon", sqlbroker.VisibilityKept, again(func(
			first, second *sqlbroker.Delivery,
		) {
			second.ReceivedNS = first.VisibleNS - 1
		})},
		{"a delivery before the delay was over", sqlbroker.VisibilityKept,
			func(e *evidence, pick func(int) int) bool {
				i := suttest.IndexFrom(e.records, pick, func(r *history.Record) bool {
					return len(received(*r)) > 0
				})
				if i < 0 {
					return false
				}
				op := received(e.records[i])[0].OpID
				var p sqlbroker.Publication
				for k := range e.records { // every attempt asks for the same
					r := &e.records[k]
					if r.Op.ID != op {
						continue
					}
					if err := json.Unmarshal(r.Op.Body, &p); err != nil {
						panic(err) // it is of the reference
					}
					p.Make.DelayMS = (e.records[i].End + ms).Milliseconds() + 1
					r.Op.Body = text(p)
				}
				return true
			}},
		{"two deliveries with one number", sqlbroker.ReceiveCount, again(func(
			first, second *sqlbroker.Delivery,
		) {
			second.Receives = first.Receives
		})},
		{"a delivery of what is acknowledged", sqlbroker.AckFinal, func(
			e *evidence, pick func(int) int,
		) bool {
			i := suttest.IndexFrom(e.records, pick, acknowledging)
			if i < 0 {
				return false
			}
			receipt := settled(e.records[i])[0]
			r := suttest.IndexFrom(e.records, pick, func(r *history.Record) bool {
				return slices.ContainsFunc(received(*r), func(d sqlbroker.Delivery) bool {
					return d.Receipt == receipt
				})
			})
			later := e.records[r]
			later.Op.ID, later.Seq = 1<<40, uint64(len(e.records))
			later.Start, later.End = e.records[i].End+ms, e.records[i].End+2*ms
			e.records = append(e.records, later)
			return true
		}},
		{"a late acknowledgement that is accepted", sqlbroker.ReceiptFenced,
			func(e *evidence, pick func(int) int) bool {
				i := suttest.IndexFrom(e.records, pick, func(r *history.Record) bool {
					return r.Op.Kind == sqlbroker.KindAck && r.Op.Arg == 0 && r.Outcome == history.Refused &&
						r.Err != "" && e.alone(r)
				})
				if i < 0 {
					return false
				}
				r := &e.records[i]
				var s sqlbroker.Settlement
				if err := json.Unmarshal(r.Op.Body, &s); err != nil {
					panic(err) // it is of the reference
				}
				r.Outcome, r.Err = history.OK, ""
				r.Reply = history.Reply{Value: 1, Body: text(sqlbroker.Settled{Done: s.Receipts})}
				r.Start += 10 * time.Second
				r.End += 10 * time.Second
				return true
			}},
		{"a group out of order", sqlbroker.GroupOrder, func(e *evidence, pick func(int) int) bool {
			i := suttest.IndexFrom(e.audit.Effects, pick, func(x *sqlbroker.EffectAudit) bool {
				return x.Group != 0 && x.Index > 0 && e.published(x.OpID) && !e.died(x.OpID)
			})
			if i < 0 {
				return false
			}
			e.audit.Effects[i].ReceivedNS = clock(0)
			return true
		}},
		{"two of a group at a time", sqlbroker.GroupOrder, func(
			e *evidence, pick func(int) int,
		) bool {
			with := func(x *sqlbroker.EffectAudit) int { // another message with a consumer
				return slices.IndexFunc(e.audit.Effects, func(y sqlbroker.EffectAudit) bool {
					return x.Group != 0 && y.Group == x.Group && y.Queue == x.Queue &&
						(y.OpID != x.OpID || y.Index != x.Index) &&
						slices.ContainsFunc(e.audit.Messages, func(m sqlbroker.MessageAudit) bool {
							return m.OpID == y.OpID && m.Index == y.Index && m.AckedNS > y.ReceivedNS
						})
				})
			}
			i := suttest.IndexFrom(e.audit.Effects, pick, func(x *sqlbroker.EffectAudit) bool {
				return with(x) >= 0
			})
			if i < 0 {
				return false
			}
			x := &e.audit.Effects[i]
			x.ReceivedNS = e.audit.Effects[with(x)].ReceivedNS
			x.VisibleNS = max(x.VisibleNS, x.ReceivedNS)
			return true
		}},
	}
}

// again changes two deliveries of one message to operations, of which neither was
// given back.
func again(change func(first, second *sqlbroker.Delivery)) func(*evidence, func(int) int) bool {
	return func(e *evidence, pick func(int) int) bool {
		type place struct{ record, index int }
		places := map[string][]place{}
		for i, r := range e.records {
			for k, d := range received(r) {
				id := number(d.OpID) + "." + number(uint64(d.Index))
				places[id] = append(places[id], place{i, k})
			}
		}
		var fit []string
		for id, list := range places {
			if len(list) == 2 && !slices.ContainsFunc(list, func(p place) bool {
				return e.releases(received(e.records[p.record])[p.index].Receipt)
			}) {
				fit = append(fit, id)
			}
		}
		if len(fit) == 0 {
			return false
		}
		slices.Sort(fit)
		list := places[fit[pick(len(fit))]]
		a, b := received(e.records[list[0].record]), received(e.records[list[1].record])
		first, second := &a[list[0].index], &b[list[1].index]
		if first.ReceivedNS > second.ReceivedNS {
			first, second = second, first
		}
		change(first, second)
		e.records[list[0].record].Reply.Body = text(a)
		e.records[list[1].record].Reply.Body = text(b)
		return true
	}
}

// received are the deliveries of a record.
func received(r history.Record) (got []sqlbroker.Delivery) {
	if r.Op.Kind == sqlbroker.KindReceive && r.Outcome == history.OK {
		if err := json.Unmarshal(r.Reply.Body, &got); err != nil {
			panic(err) // it is of the reference
		}
	}
	return got
}

// settled are the receipts that a record has settled.
func settled(r history.Record) []string {
	var s sqlbroker.Settled
	if err := json.Unmarshal(r.Reply.Body, &s); err != nil {
		panic(err) // it is of the reference
	}
	return s.Done
}

func acknowledging(r *history.Record) bool {
	return r.Op.Kind == sqlbroker.KindAck && r.Outcome == history.OK
}

// releases says that somebody may have given a receipt back.
func (e *evidence) releases(receipt string) bool {
	return slices.ContainsFunc(e.records, func(r history.Record) bool {
		var s sqlbroker.Settlement
		return r.Op.Kind == sqlbroker.KindRelease && json.Unmarshal(r.Op.Body, &s) == nil &&
			slices.Contains(s.Receipts, receipt)
	})
}

// alone says that nothing else was done with the receipts of a record.
func (e *evidence) alone(one *history.Record) bool {
	var mine sqlbroker.Settlement
	if json.Unmarshal(one.Op.Body, &mine) != nil {
		return false
	}
	for _, r := range e.records {
		var s sqlbroker.Settlement
		if r.Seq == one.Seq || r.Op.Kind == sqlbroker.KindPublish {
			continue
		}
		if json.Unmarshal(r.Op.Body, &s) == nil && slices.ContainsFunc(s.Receipts, func(x string) bool {
			return slices.Contains(mine.Receipts, x)
		}) {
			return false
		}
	}
	return true
}

// died says that a message of a publication is a dead letter.
func (e *evidence) died(op uint64) bool {
	return slices.ContainsFunc(e.audit.Dead, func(d sqlbroker.DeadAudit) bool {
		return d.OpID == op
	})
}
