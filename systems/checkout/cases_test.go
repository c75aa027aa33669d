package checkout_test

import (
	"regexp"
	"slices"
	"strconv"
	"testing"
	"time"

	"stampede/harness/check"
	"stampede/harness/history"
	"stampede/harness/suttest"
	"stampede/systems/checkout"
)

// TestClauses: each clause accepts what is right and refuses what is wrong.
func TestClauses(t *testing.T) {
	good := func() *evidence { return everyEnd(t) }
	suttest.Clauses(t, proof(), good, slices.Concat(attemptCases(), moneyCases(), roomCases(),
		edgeCases(), excessCases()))
}

// everyEnd is a run in which attempts end in every way.
func everyEnd(t *testing.T) *evidence {
	for seed := range uint64(100) {
		e, ends := proof().Whole(t, seed), map[string]bool{}
		for _, a := range e.Audit.Attempts {
			ends[a.State] = true
		}
		if ends["paid"] && ends["refused"] && ends["compensated"] && ends["left"] {
			return e
		}
	}
	t.Fatal("no run in which attempts end in every way")
	return nil
}

type verdictCase suttest.Case[*evidence]

const (
	pass  = check.Held
	fail  = check.Broken
	maybe = check.Undecided
)

func nothing(*evidence) {}

// first is the first attempt in a state.
func (e *evidence) first(state string) *checkout.AttemptRow {
	i := slices.IndexFunc(e.Audit.Attempts, func(a checkout.AttemptRow) bool {
		return a.State == state
	})
	return &e.Audit.Attempts[i]
}

// order is that of an attempt.
func (e *evidence) order(a *checkout.AttemptRow) *checkout.OrderRow {
	i := slices.IndexFunc(e.Audit.Orders, func(o checkout.OrderRow) bool { return o.Key == a.Key })
	return &e.Audit.Orders[i]
}

// record is the first of an operation.
func (e *evidence) record(id uint64) *history.Record {
	i := slices.IndexFunc(e.Records, func(r history.Record) bool { return r.Op.ID == id })
	return &e.Records[i]
}

// each changes all records of a kind and outcome.
func each(kind string, of history.Outcome, change func(*history.Record)) func(*evidence) {
	return func(e *evidence) {
		for i := range e.Records {
			if r := &e.Records[i]; r.Op.Kind == kind && r.Outcome == of {
				change(r)
			}
		}
	}
}

func unknown(r *history.Record) { r.Outcome, r.Reply = history.Unknown, history.Reply{} }

func noAudit(e *evidence) { e.Audit = checkout.Audit{} }

// attemptCases are about attempts and their ends.
func attemptCases() []verdictCase {
	const kept, ends, token, one = checkout.AttemptsKept, checkout.EndsOnce, checkout.SameToken,
		checkout.OneOrder
	is := func(was, now string) func(*evidence) {
		return func(e *evidence) { e.first(was).State = now }
	}
	return []verdictCase{
		{kept, "all are there", pass, nothing, ""},
		{kept, "one is not", fail, func(e *evidence) { e.Audit.Attempts = e.Audit.Attempts[1:] },
			"has no effect at the end"},
		{kept, "one of somebody else", fail, func(e *evidence) { e.Audit.Attempts[0].User = "x" }, `"x"`},
		{kept, "one that nobody began", fail, func(e *evidence) { e.Audit.Attempts[0].ID = 5 },
			"was never requested"},
		{kept, "twice", fail, func(e *evidence) {
			e.Audit.Attempts = append(e.Audit.Attempts, e.Audit.Attempts[0])
		}, "there are"},
		{kept, "a product is called unknown", fail, denied(checkout.ErrUnknownProduct),
			"as if there were no such thing"},
		{kept, "no audit", maybe, noAudit, "audit"},

		{ends, "all have ended", pass, nothing, ""},
		{ends, "one waits", fail, is("refused", "waiting"), "left at rest"},
		{ends, "one is admitted", fail, is("refused", "admitted"), "left at rest"},
		{ends, "one has an order and no end", fail, is("paid", "pending"), "left at rest"},
		{ends, "another end than was told", fail, is("refused", "paid"), "and is paid at the end"},
		{ends, "an end that was taken back", fail, func(e *evidence) {
			a := e.first("refused")
			e.Audit.Steps = append(e.Audit.Steps, checkout.Step{Seq: 1 << 30, ID: a.ID, Token: a.Token,
				Before: "refused", State: "pending"})
		}, "went from refused to pending"},
		{ends, "refused while it waits", pass, func(e *evidence) {
			a := e.first("refused")
			e.Audit.Steps = slices.DeleteFunc(e.Audit.Steps, func(s checkout.Step) bool {
				return s.ID == a.ID && s.State == "admitted"
			})
			for i := range e.Audit.Steps {
				if s := &e.Audit.Steps[i]; s.ID == a.ID && s.State == "refused" {
					s.Before = "waiting"
				}
			}
		}, ""},
		{ends, "an order of a refused attempt", fail, func(e *evidence) {
			a := e.first("refused")
			e.Audit.Orders = append(e.Audit.Orders, checkout.OrderRow{Key: a.Key, ID: a.ID,
				User: a.User, Product: a.Product, State: "paid"})
		}, "is refused, and its order is"},
		{ends, "an order of nobody", fail, func(e *evidence) {
			e.Audit.Orders[0].Key = "another"
		}, "is of no attempt"},
		{ends, "one has left unasked", fail, func(e *evidence) {
			e.Records = slices.DeleteFunc(e.Records, func(r history.Record) bool {
				return r.Op.Kind == checkout.KindLeave
			})
		}, "which nobody asked for"},
		{ends, "a token that was given is unknown to who leaves", fail, each(checkout.KindLeave,
			history.OK, func(r *history.Record) { suttest.Deny(r, checkout.ErrUnknownToken) }),
			"its token was unknown to a leave"},
		{ends, "a token that was given is unknown to who asks", fail, each(checkout.KindPoll,
			history.OK, func(r *history.Record) { suttest.Deny(r, checkout.ErrUnknownToken) }),
			"its token was unknown to a poll"},
		{ends, "a token is unknown between two answers, the later recorded first", fail,
			func(e *evidence) {
				one := e.Records[slices.IndexFunc(e.Records, func(r history.Record) bool {
					return r.Op.Kind == checkout.KindPoll && over.Match(r.Reply.Body)
				})]
				one.Start, one.End = time.Hour, time.Hour
				e.Records = slices.Insert(e.Records, 0, one)
				one.Start, one.End = time.Minute, time.Minute
				suttest.Deny(&one, checkout.ErrUnknownToken)
				e.Records = append(e.Records, one)
			}, "its token was unknown to a poll"},
		{ends, "one has left and was not told", pass, each(checkout.KindLeave, history.OK, unknown), ""},
		{ends, "one that has left is there again", fail, func(e *evidence) {
			a := e.first("left")
			for i := range e.Audit.Steps {
				if s := &e.Audit.Steps[i]; s.ID == a.ID && s.State == "left" {
					s.State = "refused"
				}
			}
			a.State = "refused"
		}, "was given up, and is refused"},
		{ends, "nobody was told an end", maybe, each(checkout.KindPoll, history.OK, unknown),
			"nobody was told the end"},

		{token, "the same", pass, nothing, ""},
		{token, "another one", fail, func(e *evidence) {
			r := *e.record(e.Audit.Attempts[0].ID)
			r.Reply.Key = "another"
			e.Records = append(e.Records, r)
		}, "another"},
		{token, "refused when it is sent again", fail, func(e *evidence) {
			r := *e.record(e.Audit.Attempts[0].ID)
			r.Start, r.End = r.End+ms, r.End+2*ms
			suttest.Deny(&r, checkout.ErrSoldOut)
			e.Records = append(e.Records, r)
		}, "but denied when it was sent again"},
		{token, "nobody sends again", maybe, func(e *evidence) {
			seen := map[uint64]bool{}
			e.Records = slices.DeleteFunc(e.Records, func(r history.Record) bool {
				twice := seen[r.Op.ID]
				seen[r.Op.ID] = true
				return twice
			})
		}, "acknowledged again"},

		{one, "one for each", pass, nothing, ""},
		{one, "two at a time", fail, func(e *evidence) {
			o := *e.order(e.first("paid"))
			o.Key, o.ID = "more", 999
			e.Audit.Orders = append(e.Audit.Orders, o)
		}, "2 at once, of at most 1"},
		{one, "another one when the first is cancelled", pass, func(e *evidence) {
			o := e.order(e.first("compensated"))
			o.User = "x" // who has no other one
			more := *o
			more.Key, more.ID, more.State, more.MadeNS, more.EndedNS = "more", 999, "paid", o.EndedNS, 0
			e.Audit.Orders = append(e.Audit.Orders, more)
		}, ""},
		{one, "two open attempts", fail, func(e *evidence) {
			more := *e.first("paid")
			more.ID, more.Token = 999, "more"
			e.Audit.Attempts = append(e.Audit.Attempts, more)
			e.Audit.Steps = append(e.Audit.Steps, checkout.Step{Seq: 1 << 40, ID: more.ID, Token: more.Token,
				State: "waiting"})
		}, "2 at once, of at most 1"},
		{one, "two of one join", fail, func(e *evidence) {
			o := *e.order(e.first("paid"))
			o.Key, o.User = "more", "x"
			e.Audit.Orders = append(e.Audit.Orders, o)
		}, "there are"},
		{one, "told of another attempt, which there is", pass, denied(checkout.ErrJoined), ""},
		{one, "told of another attempt, and there is none", fail, func(e *evidence) {
			denied(checkout.ErrJoined)(e)
			e.Records[len(e.Records)-1].Op.Client = "nobody"
		}, "and had no open one"},
		{one, "told of one that is paid", pass, ended("poll", "paid", 2*ms), ""},
		{one, "told of one that was refused", fail, ended("poll", "refused", ms+1), "was told at 1h"},
		{one, "told of one that has left", fail, ended("leave", "", ms+1), "and had no open one"},
		{one, "while a second store may be late", pass, ended("poll", "refused", ms), ""},
		{one, "or since a fault", pass, func(e *evidence) {
			ended("poll", "refused", time.Second)(e)
			e.Windows = []history.Window{{Kind: history.FaultWindow, Start: time.Hour, End: time.Hour,
				Recovered: time.Hour}}
		}, ""},
		{one, "no orders", maybe, func(e *evidence) { e.Audit.Orders = nil }, "no orders"},
	}
}

// denied has the first who has joined join again at the same time, which is refused.
func denied(why error) func(*evidence) {
	return func(e *evidence) {
		r := *e.record(e.Audit.Attempts[0].ID)
		r.Op.ID += 1 << 40
		suttest.Deny(&r, why)
		e.Records = append(e.Records, r)
	}
}

// ended has nobody join, hear what became of the attempt, and be told of it at another join a while
// after. A second store is a millisecond late.
func ended(kind, how string, after time.Duration) func(*evidence) {
	return func(e *evidence) {
		denied(checkout.ErrJoined)(e)
		again, first := &e.Records[len(e.Records)-1], *e.record(e.Audit.Attempts[0].ID)
		again.Op.Client, again.Start, again.End = "nobody", time.Hour+after, time.Hour+after
		first.Op.Client, first.Reply.Key = "nobody", "token"
		first.Start, first.End = time.Hour, time.Hour
		said := first
		said.Op.Kind, said.Op.Key, said.Reply.Body = kind, "token", []byte(`{"state":"`+how+`"}`)
		e.Records = append(e.Records, first, said)
		e.Audit.Contract.RepairLagNS = int64(ms)
	}
}

// moneyCases are about units and money.
func moneyCases() []verdictCase {
	const oversell, money, stock, drift, free = checkout.NoOversell, checkout.PaidOrRefunded,
		checkout.StockAddsUp, checkout.DriftRepaired, checkout.FreeIsForSale
	payment := func(of string, change func(*evidence, int)) func(*evidence) {
		return func(e *evidence) {
			key := e.first(of).Key
			change(e, slices.IndexFunc(e.Audit.Payments, func(p checkout.PaymentRow) bool {
				return p.Key == key
			}))
		}
	}
	early := func(lag time.Duration) func(*evidence) {
		return func(e *evidence) {
			e.Audit.Contract.RepairLagNS = int64(lag)
			denied(checkout.ErrSoldOut)(e)
			r := &e.Records[len(e.Records)-1]
			r.Start, r.End = 0, 0
		}
	}
	return []verdictCase{
		{oversell, "all are sold", pass, func(e *evidence) { e.excess(0) }, ""},
		{oversell, "one more", fail, func(e *evidence) { e.excess(1) }, "only 15 exist"},
		{oversell, "nobody has one", maybe, func(e *evidence) { e.Audit.Orders = []checkout.OrderRow{} },
			"nobody has an order"},

		{money, "settled", pass, nothing, ""},
		{money, "a paid order that was not captured", fail, payment("paid", func(e *evidence, i int) {
			e.Audit.Payments = slices.Delete(e.Audit.Payments, i, i+1)
		}), "captured 0 times"},
		{money, "captured twice", fail, payment("paid", func(e *evidence, i int) {
			e.Audit.Payments = append(e.Audit.Payments, e.Audit.Payments[i])
		}), "captured 2 times"},
		{money, "captured for another price", fail, payment("paid", func(e *evidence, i int) {
			e.Audit.Payments[i].Amount = 7
		}), "7 of 4999"},
		{money, "kept for a cancelled order", fail, func(e *evidence) {
			e.Audit.Payments = append(e.Audit.Payments, checkout.PaymentRow{Key: e.first("compensated").Key,
				Kind: "capture", Amount: e.P.Price})
		}, "is cancelled"},
		{money, "kept for nothing", fail, func(e *evidence) {
			e.Audit.Payments = append(e.Audit.Payments, checkout.PaymentRow{Key: "x", Kind: "capture",
				Amount: 1})
		}, "it has no order"},
		{money, "called back as declined", fail, func(e *evidence) {
			e.Audit.Callbacks = append(e.Audit.Callbacks, checkout.CallbackRow{Key: e.first("paid").Key})
		}, "called back that it is not"},
		{money, "no provider that calls back", pass, func(e *evidence) { e.Audit.Callbacks = nil }, ""},
		{money, "no callback came twice", maybe, func(e *evidence) {
			e.Audit.Callbacks = []checkout.CallbackRow{}
		}, "never called back again"},
		{money, "nothing was refunded", maybe, noRefunds, "no captured payment was refunded"},
		{money, "nothing had to be", pass, func(e *evidence) {
			noRefunds(e)
			e.P.SlowTime = 0
		}, ""},
		{money, "nobody paid", maybe, func(e *evidence) {
			e.Audit.Orders, e.Audit.Payments = []checkout.OrderRow{}, []checkout.PaymentRow{}
		}, "no order is paid"},

		{stock, "adds up", pass, nothing, ""},
		{stock, "one is gone", fail, func(e *evidence) { e.Audit.Stock[0].Available += 2 }, "want 15"},
		{stock, "a product is left out", fail, func(e *evidence) { e.Audit.Stock = e.Audit.Stock[1:] },
			"does not list product-1"},
		{stock, "one was bought", pass, func(e *evidence) {
			e.Audit.Stock[0].Available++
			e.Audit.Settlements = []checkout.SettlementRow{{Product: 1, Restocked: 1,
				Cancelled: []string{}}}
		}, ""},
		{stock, "never off", pass, sampled(`{"open":1,"most":15,"off":0}`), ""},
		{stock, "off for a moment", fail, sampled(`{"open":1,"most":1,"off":2}`), "of 2 products"},
		{stock, "no stock", maybe, func(e *evidence) { e.Audit.Stock = nil }, "no stock"},

		{drift, "none", pass, nothing, ""},
		{drift, "a hold that nobody has", fail, func(e *evidence) { e.Audit.Gate[0].Left-- }, "no such"},
		{drift, "a product that Redis has forgotten", fail, func(e *evidence) {
			e.Audit.Gate = e.Audit.Gate[1:]
		}, "no such gate"},
		{drift, "no second store", maybe, func(e *evidence) {
			e.Audit.Gate, e.Audit.Contract.RepairLagNS = nil, 0
		}, "no gates"},

		{free, "sold out", pass, nothing, ""},
		{free, "told sold out before anybody came", fail, early(0),
			"refused as sold out between 0s and 0s"},
		{free, "the same, while a second store may be late", fail, early(time.Second),
			"refused as sold out between 0s and 0s"},
		{free, "sold out, of units that were bought before", fail, func(e *evidence) {
			e.Audit.Settlements = []checkout.SettlementRow{{Product: 1, Restocked: 1000,
				Cancelled: []string{}, AtNS: 1}}
		}, "of 1015 units"},
		{free, "sold out, before units were bought", pass, func(e *evidence) {
			e.Audit.Settlements = []checkout.SettlementRow{{Product: 1, Restocked: 1000,
				Cancelled: []string{}, AtNS: 1 << 62}}
		}, ""},
		{free, "a promise that excuses everything", maybe, func(e *evidence) {
			e.Audit.Contract.RepairLagNS = int64(time.Hour)
		}, "the most allowed is 10s"},
	}
}

// noRefunds leaves out captures that were refunded, and the refunds.
func noRefunds(e *evidence) {
	back := map[string]bool{}
	for _, p := range e.Audit.Payments {
		back[p.Key] = back[p.Key] || p.Kind == "refund"
	}
	e.Audit.Payments = slices.DeleteFunc(e.Audit.Payments, func(p checkout.PaymentRow) bool {
		return back[p.Key]
	})
}

// sampled is a look of the gauge.
func sampled(body string) func(*evidence) {
	return func(e *evidence) {
		e.Samples = append(e.Samples, history.Sample{From: ms, To: 2 * ms, Body: []byte(body)})
	}
}

// excess makes orders of the first product, so many more than there are units. They are paid, each
// a nanosecond younger than the one before, and their keys are "0", "1" and so on.
func (e *evidence) excess(n int) {
	e.Audit.Orders = slices.DeleteFunc(e.Audit.Orders, func(o checkout.OrderRow) bool {
		return o.Product == 1
	})
	for i := range e.P.Units + n {
		e.Audit.Orders = append(e.Audit.Orders, checkout.OrderRow{Key: strconv.Itoa(i), ID: uint64(i) + 1,
			User: strconv.Itoa(i), Product: 1, State: "paid", MadeNS: int64(i) + 1})
	}
}

// excessCases are about orders beyond the units.
func excessCases() []verdictCase {
	const excess, oversell = checkout.ExcessSettled, checkout.NoOversell
	// settled cancels some of 17 orders for 15 units, and buys units.
	settled := func(bought int64, keys ...string) func(*evidence) {
		return func(e *evidence) {
			e.excess(2)
			for i := range e.Audit.Orders {
				if o := &e.Audit.Orders[i]; slices.Contains(keys, o.Key) {
					o.State, o.EndedNS = "cancelled", 2*int64(time.Hour)
				}
			}
			e.Audit.Settlements = []checkout.SettlementRow{{Product: 1, Restocked: bought,
				Cancelled: append([]string{}, keys...), AtNS: 100 + int64(time.Hour)}}
		}
	}
	// ended cancels the oldest, of the 17 for which two units were bought.
	ended := func(at int64) func(*evidence) {
		return func(e *evidence) {
			settled(2)(e)
			o := &e.Audit.Orders[len(e.Audit.Orders)-17]
			o.State, o.EndedNS = "cancelled", at
		}
	}
	return []verdictCase{
		{excess, "none", pass, nothing, ""},
		{excess, "bought", pass, settled(2), ""},
		{excess, "one was not", fail, settled(1), "17 orders for 15 units, and 1 were bought"},
		{excess, "the newest are cancelled", pass, settled(0, "16", "15"), ""},
		{excess, "an older one is", fail, settled(0, "16", "3"), "order 3 was cancelled"},
		{excess, "one that may have been out of sight is kept", pass, func(e *evidence) {
			settled(0, "16", "15")(e)
			e.Audit.Orders[len(e.Audit.Orders)-4].MadeNS = int64(time.Hour)
		}, ""},
		{excess, "more are cancelled than there were too many", fail, settled(0, "16", "15", "14"),
			"17 orders for 15 units; 3 were"},
		{excess, "more are bought", fail, settled(3), "17 orders for 15 units; 3 were"},
		{excess, "bought twice", fail, func(e *evidence) {
			settled(2)(e)
			e.Audit.Settlements = append(e.Audit.Settlements, e.Audit.Settlements[0])
		}, "17 orders for 17 units; 2 were"},
		{excess, "one was cancelled after the count", pass, ended(100 + int64(time.Hour) - 1), ""},
		{excess, "one was cancelled before it", fail, ended(100), "16 orders for 15 units; 2 were"},
		{excess, "one was only said to be", fail, func(e *evidence) {
			settled(0, "16", "15")(e)
			e.Audit.Orders[len(e.Audit.Orders)-1].State = "paid"
		}, "was to be cancelled"},
		{excess, "no audit", maybe, noAudit, "audit"},

		{oversell, "the gauge saw as many as there are", pass, sampled(`{"open":1,"most":15}`), ""},
		{oversell, "the gauge saw one more", fail, sampled(`{"open":1,"most":16}`), "16 orders"},
	}
}

// over matches the answer to a poll that tells of an end.
var over = regexp.MustCompile(`"(paid|refused|compensated)"`)

// roomCases are about the waiting room.
func roomCases() []verdictCase {
	const position, fair, room = checkout.PositionKept, checkout.FairAdmission, checkout.RoomKept
	return []verdictCase{
		{position, "forward", pass, nothing, ""},
		{position, "back to the room", fail, func(e *evidence) {
			i := slices.IndexFunc(e.Records, func(r history.Record) bool {
				return r.Op.Kind == checkout.KindPoll && r.Outcome == history.OK
			})
			r := e.Records[i]
			r.Start, r.End = time.Hour, time.Hour
			r.Reply = history.Reply{Value: 10_000, Body: []byte(`{"state":"waiting","position":10000}`)}
			e.Records = append(e.Records, r)
		}, "at position 10000"},
		{position, "an answer that cannot be read", fail, each(checkout.KindPoll, history.OK,
			func(r *history.Record) { r.Reply.Body = []byte("?") }), "cannot be read"},
		{position, "nobody polls before the end", maybe, each(checkout.KindPoll, history.OK,
			func(r *history.Record) {
				if !over.Match(r.Reply.Body) {
					unknown(r)
				}
			}), "position changed"},
		{position, "nobody polls", maybe, each(checkout.KindPoll, history.OK, unknown),
			"position changed"},

		{fair, "first come first served", pass, nothing, ""},
		{fair, "the other way round", fail, func(e *evidence) { firstLast(e, nil) }, "that came later"},
		{fair, "nobody is admitted", maybe, func(e *evidence) {
			for i := range e.Audit.Attempts {
				e.Audit.Attempts[i].AdmitSeq = 0
			}
		}, "0 pairs came certainly"},

		{room, "never full", pass, nothing, ""},
		{room, "too many", fail, func(e *evidence) {
			for i := range 11 { // nothing else of this product is left
				e.Audit.Steps = append(e.Audit.Steps, checkout.Step{Seq: int64(1<<30 + i), ID: 1,
					Token: string(rune('a' + i)), Before: "waiting", State: "admitted"})
			}
		}, "11 at once, of at most 10"},
		{room, "no audit", maybe, func(e *evidence) { e.Audit.Steps = nil }, "audit"},
	}
}

// edgeCases are about limits: 10 at once and 5 a second of a user, 20 and 5 of an address.
func edgeCases() []verdictCase {
	const limits = checkout.LimitsKept
	// passed lets a user through so often, with so long between two.
	passed := func(n int, apart time.Duration) func(*evidence) {
		return func(e *evidence) {
			for i := range n {
				r := *e.record(e.Audit.Attempts[0].ID)
				op := checkout.JoinRequest{ID: uint64(1000 + i), Product: 1, User: "x", IP: "1.2.3.4"}
				r.Op = checkout.API().Op(checkout.KindJoin, op)
				r.Start = time.Duration(i) * apart
				r.End = r.Start + ms
				e.Records = append(e.Records, r)
			}
		}
	}
	noted := func(n int, apart time.Duration) func(*evidence) {
		return func(e *evidence) {
			for i := range n {
				e.Audit.Attempts = append(e.Audit.Attempts, checkout.AttemptRow{ID: uint64(1000 + i),
					Product: 1, State: "refused", User: "x", IP: "1.2.3.4",
					PassedNS: int64(1e18) + int64(i)*int64(apart)})
			}
		}
	}
	// then adds a record after the last one.
	then := func(first func(*evidence), change func(*history.Record)) func(*evidence) {
		return func(e *evidence) {
			first(e)
			r := e.Records[len(e.Records)-1]
			change(&r)
			e.Records = append(e.Records, r)
		}
	}
	limited := func(r *history.Record) {
		r.Op.ID++
		suttest.Deny(r, checkout.ErrRateLimited)
	}
	struck := func(and func(*evidence)) func(*evidence) {
		return func(e *evidence) {
			e.Windows = []history.Window{{Kind: history.FaultWindow, Fault: "kill redis",
				Start: 100 * ms, End: 200 * ms, Recovered: 200 * ms}}
			and(e)
		}
	}
	return []verdictCase{
		{limits, "a burst", pass, passed(10, 0), ""},
		{limits, "one more", fail, passed(11, 0), "user x was let through 11 times"},
		{limits, "at the rate", pass, passed(40, 200*ms), ""},
		{limits, "above it", fail, passed(40, 100*ms), "user x"},
		{limits, "by the limiter's clock", fail, noted(11, 0), "the limiter's clock"},
		{limits, "at the rate by the limiter's clock", pass, noted(40, 200*ms), ""},
		{limits, "twice, where Redis was struck", pass, struck(passed(20, 0)), ""},
		{limits, "more than that", fail, struck(passed(21, 0)), "the limit is 20"},
		{limits, "a burst, of which one is sent again", pass, then(passed(10, 0),
			func(r *history.Record) { r.Start, r.End = 50*ms, 55*ms }), ""},
		{limits, "denied after a burst", pass, then(passed(10, 0), limited), ""},
		{limits, "denied before its end", fail, then(passed(9, 0), limited), "it had sent 10 joins"},
		{limits, "denied before it was sent", fail, then(passed(10, 10*ms),
			func(r *history.Record) {
				limited(r)
				r.Start, r.End = 50*ms, 51*ms
			}), "x from 1.2.3.4 was denied at 51ms"},
		{limits, "denied after a burst of the address", pass, func(e *evidence) {
			e.P.UserBurst = 100
			then(passed(20, 0), limited)(e)
		}, ""},
		{limits, "nobody was limited", maybe, each(checkout.KindJoin, history.Refused,
			func(r *history.Record) { r.Code = "already_joined" }), "nobody was limited"},
	}
}
