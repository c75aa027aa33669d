package sqlbroker_test

import (
	"fmt"
	"maps"
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
		Whole: func(t suttest.TB, seed uint64) *evidence {
			return runOf(t, seed, hurried(), suttest.Trouble{}, 0, 0, 200)
		},
		Parts:     func(e *evidence) ([]history.Record, any) { return e.records, &e.audit },
		Unnoticed: unnoticed, Absent: absent,
		Judged: func(t *testing.T, c suttest.Case[*evidence], v check.Verdict) {
			undone := c.Invariant == sqlbroker.WorkedOff || strings.Contains(c.Says, "has waited in") ||
				strings.Contains(c.Says, "at rest")
			if undone && v.Unfinished != v.Count {
				t.Errorf("of %d violations %d are of what was not done yet", v.Count, v.Unfinished)
			}
		}}
	for _, inv := range sqlbroker.Invariants(sqlbroker.DefaultParams()) {
		p.Invariants = append(p.Invariants, inv.Name())
	}
	return p
}

// TestJudges: the judges are sound, hurried runs decide all of them, and none is vacuous.
func TestJudges(t *testing.T) {
	suttest.Prove(t, proof(), 10, slices.Concat(storedCorruptions(), deliveredCorruptions()))
}

// absent are those of what the reference has none of, by the reason.
var absent = map[string][]string{
	"none is refused":          {"invent publish", "invent receive", "invent release"},
	"all answers are the same": {"exchange answers to publish"},
	"all queues have the same settings": {"exchange visibility_ns of queues",
		"exchange max_receives of queues", "exchange retention_ns of queues"},
	"one queue has consumers": {"exchange queue of effects"},
	"no message waits for long; a corruption of the system's own sets these": {
		"exchange retention_age_ns of queues", "raise retention_age_ns of queues",
		"lower retention_age_ns of queues", "exchange age_ns of messages", "raise age_ns of messages",
		"lower age_ns of messages", "exchange waits_ns of messages", "raise waits_ns of messages",
		"lower waits_ns of messages"},
	"nobody redrives dead letters": {"exchange redrives of messages", "raise redrives of messages",
		"lower redrives of messages", "exchange redrives of dead", "raise redrives of dead",
		"lower redrives of dead"},
	"all died of as many deliveries": {"exchange receives of dead", "exchange reason of dead"},
}

// unnoticed are the blind corruptions that no invariant can notice, by the reason.
var unnoticed = map[string][]string{
	"an answer without receipts cannot be read, which proves nothing": {"invent ack"},
	"the first of a name counts":                                      {"double of queues"},
	"all have the same settings":                                      {"exchange queue of queues"},
	"no invariant asks who it was": {"change client of ack", "change client of publish",
		"change client of receive", "change client of release"},
	"a receipt says itself what it is about": {"change key of ack", "change key of release"},
	"it is by a nanosecond": {"raise visibility_ns of queues", "raise retention_ns of queues",
		"exchange age_ns of dead", "raise age_ns of dead", "lower age_ns of dead"},
	"groups are those that were published": {"exchange group of messages",
		"raise group of messages", "lower group of messages", "raise group of effects"},
	"who acknowledged may have done so earlier": {"exchange acked_at_ns of messages",
		"lower acked_at_ns of messages"},
	"it is how many there are": {"raise value in answers to ack", "lower value in answers to ack",
		"raise value in answers to receive", "lower value in answers to receive",
		"raise value in answers to release", "lower value in answers to release"},
	"a receipt that is named twice is good once": {"double done in answers to ack",
		"double done in answers to release"},
	"what a delivery says of its time is not believed alone": {
		"lower visible_at_ns in answers to receive"},
	"it is only told": {"raise value in answers to publish", "lower value in answers to publish",
		"exchange receives of effects", "raise receives of effects",
		"lower receives of effects", "exchange consumer of effects", "raise visible_at_ns of effects",
		"exchange stored_at_ns of effects", "raise stored_at_ns of effects",
		"lower stored_at_ns of effects"},
}

type corruption suttest.Corruption[*evidence]

// one corrupts one of those rows that fit.
func one[T any](
	name, breaks string, rows func(*evidence) *[]T, fits func(*evidence, *T) bool,
	does func(e *evidence, i int),
) corruption {
	return corruption{name, breaks, func(e *evidence, pick func(int) int) bool {
		i := suttest.IndexFrom(*rows(e), pick, func(row *T) bool { return fits(e, row) })
		if i >= 0 {
			does(e, i)
		}
		return i >= 0
	}}
}

// The rows.
func records(e *evidence) *[]history.Record          { return &e.records }
func messages(e *evidence) *[]sqlbroker.MessageAudit { return &e.audit.Messages }
func effects(e *evidence) *[]sqlbroker.EffectAudit   { return &e.audit.Effects }

// published says that a publisher was told that a message is there.
func (e *evidence) published(op uint64) bool {
	return slices.ContainsFunc(e.records, func(r history.Record) bool {
		return r.Op.ID == op && r.Outcome == history.OK
	})
}

func storedCorruptions() []corruption {
	return []corruption{
		one("a message that nobody works off", sqlbroker.WorkedOff, messages,
			func(_ *evidence, m *sqlbroker.MessageAudit) bool { return m.Queue == "queue-1" },
			func(e *evidence, i int) { e.audit.Messages[i].State = sqlbroker.StateReady }),
		one("a message that waits too long", sqlbroker.DeadLetters, messages,
			func(e *evidence, m *sqlbroker.MessageAudit) bool {
				return m.State == sqlbroker.StateReady && e.published(m.OpID)
			}, func(e *evidence, i int) {
				m := &e.audit.Messages[i]
				m.AgeNS, m.WaitsNS = int64(48*time.Hour), int64(time.Minute)
				for q := range e.audit.Queues {
					e.audit.Queues[q].RetentionAgeNS = int64(48 * time.Hour)
				}
			}),
		one("a message that died with its neighbour", sqlbroker.DeadLetters, effects,
			func(e *evidence, x *sqlbroker.EffectAudit) bool { return e.published(x.OpID) },
			func(e *evidence, i int) {
				x := e.audit.Effects[i]
				e.audit.Dead = append(e.audit.Dead, sqlbroker.DeadAudit{OpID: x.OpID, Index: x.Index,
					Queue: x.Queue, Receives: e.params.MaxReceives, Reason: sqlbroker.DeadReceives,
					AgeNS: int64(50 * ms)})
			}),
	}
}

func deliveredCorruptions() []corruption {
	return []corruption{
		again("a delivery that comes too soon", sqlbroker.VisibilityKept,
			func(first, second *sqlbroker.Delivery) { second.ReceivedNS = first.VisibleNS - 1 }),
		again("two deliveries with one number", sqlbroker.ReceiveCount,
			func(first, second *sqlbroker.Delivery) { second.Receives = first.Receives }),
		one("a delivery before the delay was over", sqlbroker.VisibilityKept, records,
			func(_ *evidence, r *history.Record) bool { return len(deliveries(*r)) > 0 },
			func(e *evidence, i int) {
				op := deliveries(e.records[i])[0].OpID
				for k := range e.records { // every attempt asks for the same
					if r := &e.records[k]; r.Op.ID == op {
						p := parsed[sqlbroker.Publication](r.Op.Body)
						p.Make.DelayMS = (e.records[i].End + ms).Milliseconds() + 1
						r.Op.Body = text(p)
					}
				}
			}),
		one("a delivery of what is acknowledged", sqlbroker.AckFinal, records,
			func(_ *evidence, r *history.Record) bool {
				return r.Op.Kind == sqlbroker.KindAck && r.Outcome == history.OK
			}, func(e *evidence, i int) {
				receipt := parsed[sqlbroker.Settled](e.records[i].Reply.Body).Done[0]
				r := slices.IndexFunc(e.records, func(r history.Record) bool {
					return slices.ContainsFunc(deliveries(r), func(d sqlbroker.Delivery) bool {
						return d.Receipt == receipt
					})
				})
				later := e.records[r]
				later.Op.ID, later.Seq = 1<<40, uint64(len(e.records))
				later.Start, later.End = e.records[i].End+ms, e.records[i].End+2*ms
				e.records = append(e.records, later)
			}),
		one("a late acknowledgement that is accepted", sqlbroker.ReceiptFenced, records,
			func(e *evidence, r *history.Record) bool {
				return r.Op.Kind == sqlbroker.KindAck && r.Outcome == history.Refused && r.Err != "" &&
					e.alone(r)
			}, func(e *evidence, i int) {
				r := &e.records[i]
				r.Outcome, r.Err = history.OK, ""
				r.Reply = history.Reply{Value: 1, Body: text(sqlbroker.Settled{Done: receipts(*r)})}
				r.Start += 10 * time.Second
				r.End += 10 * time.Second
			}),
		one("a group out of order", sqlbroker.GroupOrder, effects,
			func(e *evidence, x *sqlbroker.EffectAudit) bool {
				return x.Group != 0 && x.Index > 0 && e.published(x.OpID) &&
					!slices.ContainsFunc(e.audit.Dead, func(d sqlbroker.DeadAudit) bool {
						return d.OpID == x.OpID
					})
			}, func(e *evidence, i int) { e.audit.Effects[i].ReceivedNS = clock(0) }),
		one("two of a group at a time", sqlbroker.GroupOrder, effects,
			func(e *evidence, x *sqlbroker.EffectAudit) bool { return e.beside(x) >= 0 },
			func(e *evidence, i int) {
				x := &e.audit.Effects[i]
				x.ReceivedNS = e.audit.Effects[e.beside(x)].ReceivedNS
				x.VisibleNS = max(x.VisibleNS, x.ReceivedNS)
			}),
	}
}

// beside is the effect of another message of the same group, which was with a consumer, -1 if
// there is none.
func (e *evidence) beside(x *sqlbroker.EffectAudit) int {
	return slices.IndexFunc(e.audit.Effects, func(y sqlbroker.EffectAudit) bool {
		return x.Group != 0 && y.Group == x.Group && y.Queue == x.Queue &&
			(y.OpID != x.OpID || y.Index != x.Index) &&
			slices.ContainsFunc(e.audit.Messages, func(m sqlbroker.MessageAudit) bool {
				return m.OpID == y.OpID && m.Index == y.Index && m.AckedNS > y.ReceivedNS
			})
	})
}

// again changes two deliveries of one message to operations, of which neither was
// given back.
func again(name, breaks string, change func(first, second *sqlbroker.Delivery)) corruption {
	return corruption{name, breaks, func(e *evidence, pick func(int) int) bool {
		type place struct{ record, index int }
		places := map[string][]place{}
		for i, r := range e.records {
			for k, d := range deliveries(r) {
				id := fmt.Sprintf("%d.%d", d.OpID, d.Index)
				places[id] = append(places[id], place{i, k})
			}
		}
		maps.DeleteFunc(places, func(_ string, list []place) bool {
			return len(list) != 2 || slices.ContainsFunc(list, func(p place) bool {
				return e.releases(deliveries(e.records[p.record])[p.index].Receipt)
			})
		})
		if len(places) == 0 {
			return false
		}
		list := places[slices.Sorted(maps.Keys(places))[pick(len(places))]]
		a, b := deliveries(e.records[list[0].record]), deliveries(e.records[list[1].record])
		first, second := &a[list[0].index], &b[list[1].index]
		if first.ReceivedNS > second.ReceivedNS {
			first, second = second, first
		}
		change(first, second)
		e.records[list[0].record].Reply.Body = text(a)
		e.records[list[1].record].Reply.Body = text(b)
		return true
	}}
}

// deliveries are those of a record, receipts those that it is about.
func deliveries(r history.Record) []sqlbroker.Delivery {
	if r.Op.Kind != sqlbroker.KindReceive || r.Outcome != history.OK {
		return nil
	}
	return parsed[[]sqlbroker.Delivery](r.Reply.Body)
}

func receipts(r history.Record) []string {
	if r.Op.Kind != sqlbroker.KindAck && r.Op.Kind != sqlbroker.KindExtend &&
		r.Op.Kind != sqlbroker.KindRelease {
		return nil
	}
	return parsed[sqlbroker.Settlement](r.Op.Body).Receipts
}

// releases says that somebody may have given a receipt back.
func (e *evidence) releases(receipt string) bool {
	return slices.ContainsFunc(e.records, func(r history.Record) bool {
		return r.Op.Kind == sqlbroker.KindRelease && slices.Contains(receipts(r), receipt)
	})
}

// alone says that nothing else was done with the receipts of a record.
func (e *evidence) alone(one *history.Record) bool {
	mine := receipts(*one)
	return !slices.ContainsFunc(e.records, func(r history.Record) bool {
		return r.Seq != one.Seq && slices.ContainsFunc(receipts(r), func(x string) bool {
			return slices.Contains(mine, x)
		})
	})
}
