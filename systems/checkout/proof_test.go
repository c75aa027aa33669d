package checkout_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"stampede/harness/history"
	"stampede/harness/suttest"
	"stampede/systems/checkout"
)

const ms = time.Millisecond

// evidence is a history and an audit, which tests change.
type evidence struct {
	suttest.Evidence[checkout.Params, checkout.Audit]
}

// anySale is a sale of any kind.
func anySale(d suttest.Draw) *checkout.Params {
	p := crowd()
	p.Products, p.Units = d.Int("products", 1, 5), d.Int("units", 1, 100)
	p.Users = d.Int("users", 0, 200)
	p.IPs, p.BotIPs, p.Bots = d.Int("ips", 1, 100), d.Int("bot ips", 1, 5), d.Share("bots")
	p.Resend, p.Retry, p.ComeBack = d.Share("resend"), d.Int("retry", 0, 5), d.Int("come back", 0, 3)
	p.UserRate, p.UserBurst = 10*d.Share("user rate"), d.Int("user burst", 1, 10)
	p.IPRate, p.IPBurst = 50*d.Share("ip rate"), d.Int("ip burst", 1, 50)
	p.Room, p.Batch = d.Int("room", 1, 50), d.Int("batch", 1, 20)
	return p
}

// proof is what the judges of checkout are proved by.
func proof() suttest.Proof[*evidence] {
	return suttest.Played(suttest.Proof[*evidence]{
		Unnoticed: map[string][]string{
			"a poll changes nothing, and is the same for everybody": {"deny poll",
				"change client of poll", "change client of leave"},
			"a limiter may have let somebody pass at another time, while tokens were there": {
				"exchange passed_ns of attempts", "raise passed_ns of attempts", "lower passed_ns of attempts"},
			"people in front go at any time": {"lower position in answers to poll",
				"raise value in answers to join"},
			"an attempt may begin earlier, and a step be made at another time": {
				"lower made_ns of attempts", "raise at_ns of steps", "lower at_ns of steps",
				"exchange at_ns of steps"},
			"steps count in their order": {
				"raise seq of steps", "lower seq of steps"},
			"the provider calls back as often as it likes": {
				"drop of callbacks", "double of callbacks"},
		},
		Absent: map[string][]string{
			"a poll has no row":           {"invent poll"},
			"who leaves is told nothing":  {"exchange answers to leave"},
			"a price is the same for all": {"exchange amount of payments"},
			"the model never has more orders than units": {
				"drop of settlements", "double of settlements", "exchange product of settlements",
				"raise product of settlements", "lower product of settlements",
				"exchange restocked of settlements", "raise restocked of settlements",
				"lower restocked of settlements", "exchange at_ns of settlements",
				"raise at_ns of settlements", "lower at_ns of settlements",
				"drop of settlements.cancelled", "double of settlements.cancelled"},
		},
	}, checkout.System(), crowd, anySale, 200, time.Second, newShop)
}

// TestJudges: the judges are sound, a smoke run decides all of them, and none is vacuous.
func TestJudges(t *testing.T) {
	suttest.Prove(t, proof(), 30, corruptions())
}

type corruption suttest.Corruption[*evidence]

func corruptions() []corruption {
	paid := func(o *checkout.OrderRow) bool { return o.State == "paid" }
	return []corruption{
		{"orders that nobody settled", checkout.ExcessSettled, func(e *evidence, _ func(int) int) bool {
			e.excess(1)
			return true
		}},
		{"orders beyond the stock", checkout.NoOversell, func(e *evidence, pick func(int) int) bool {
			o := suttest.PickFrom(e.Audit.Orders, pick, paid)
			for i := 0; o != nil && i <= e.P.Units; i++ {
				more := *o
				more.Key, more.User = fmt.Sprint("more", i), "somebody"
				e.Audit.Orders = append(e.Audit.Orders, more)
			}
			return o != nil
		}},
		{"an attempt is gone", checkout.AttemptsKept, func(e *evidence, pick func(int) int) bool {
			r := suttest.PickFrom(e.Records, pick, func(r *history.Record) bool {
				return r.Op.Kind == checkout.KindJoin && r.Outcome == history.OK
			})
			e.Audit.Attempts = slices.DeleteFunc(e.Audit.Attempts, func(a checkout.AttemptRow) bool {
				return a.ID == r.Op.ID
			})
			return true
		}},
		{"an attempt waits for ever", checkout.EndsOnce, func(e *evidence, pick func(int) int) bool {
			return suttest.Change(e.Audit.Attempts, pick, func(a *checkout.AttemptRow) bool {
				return a.State == "refused"
			}, func(a *checkout.AttemptRow) { a.State = "admitted" })
		}},
		{"money is kept for a cancelled order", checkout.PaidOrRefunded,
			func(e *evidence, pick func(int) int) bool {
				return suttest.Change(e.Audit.Payments, pick, func(p *checkout.PaymentRow) bool {
					return p.Kind == "refund"
				}, func(p *checkout.PaymentRow) { p.Key = "another" })
			}},
		{"a second order of a user", checkout.OneOrder, func(e *evidence, pick func(int) int) bool {
			return suttest.Change(e.Audit.Orders, pick, paid, func(o *checkout.OrderRow) {
				more := *o
				more.Key = "more"
				e.Audit.Orders = append(e.Audit.Orders, more)
			})
		}},
		{"another token", checkout.SameToken, func(e *evidence, pick func(int) int) bool {
			r := *suttest.PickFrom(e.Records, pick, func(r *history.Record) bool {
				return r.Op.Kind == checkout.KindJoin && r.Outcome == history.OK
			})
			r.Reply.Key = "another"
			e.Records = append(e.Records, r)
			return true
		}},
		{"a unit is gone", checkout.StockAddsUp, func(e *evidence, pick func(int) int) bool {
			e.Audit.Stock[pick(len(e.Audit.Stock))].Available--
			return true
		}},
		{"Redis has one more", checkout.DriftRepaired, func(e *evidence, pick func(int) int) bool {
			e.Audit.Gate[pick(len(e.Audit.Gate))].Left++
			return true
		}},
		{"a position goes back", checkout.PositionKept, func(e *evidence, pick func(int) int) bool {
			return suttest.Change(e.Records, pick, func(r *history.Record) bool {
				return r.Op.Kind == checkout.KindPoll && r.Outcome == history.OK && r.Reply.Value == 0
			}, func(r *history.Record) {
				r.Reply.Value = 10_000
				r.Reply.Body = []byte(`{"state":"waiting","position":10000}`)
			})
		}},
		{"the first is admitted last", checkout.FairAdmission, firstLast},
		{"too many at the checkout", checkout.RoomKept, func(e *evidence, _ func(int) int) bool {
			n := 0
			for i := range e.Audit.Steps { // of one product, nobody is decided before all are admitted
				if s := &e.Audit.Steps[i]; s.State != "waiting" && s.Before != "waiting" {
					s.Seq += 100_000
				} else if s.State == "admitted" {
					n++
				}
			}
			return n > 3*e.P.Room
		}},
		{"a bot is let through", checkout.LimitsKept, func(e *evidence, _ func(int) int) bool {
			first := e.Audit.Attempts[0]
			for i := range e.Audit.Attempts {
				e.Audit.Attempts[i].PassedNS, e.Audit.Attempts[i].IP = first.PassedNS, first.IP
			}
			return true
		}},
		{"refused while a unit is free", checkout.FreeIsForSale, func(e *evidence, _ func(int) int) bool {
			// All orders but one are gone, and so are their attempts.
			if len(e.Audit.Orders) == 0 {
				return false
			}
			had := map[uint64]bool{}
			for _, o := range e.Audit.Orders {
				had[o.ID] = true
			}
			for i := range e.Records {
				if had[e.Records[i].Op.ID] {
					suttest.Deny(&e.Records[i], checkout.ErrJoined)
				}
			}
			return true
		}},
	}
}

// firstLast numbers the admissions of the product with the most of them the other way round.
func firstLast(e *evidence, _ func(int) int) bool {
	count, most := map[uint64]int64{}, uint64(0)
	for _, a := range e.Audit.Attempts {
		if count[a.Product]++; count[a.Product] > count[most] {
			most = a.Product
		}
	}
	for i := range e.Audit.Attempts {
		if a := &e.Audit.Attempts[i]; a.Product == most && a.AdmitSeq > 0 {
			a.AdmitSeq = count[most] + 1 - a.AdmitSeq
		}
	}
	return count[most] > 15
}
