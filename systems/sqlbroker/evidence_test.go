package sqlbroker_test

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"stampede/harness/check"
	"stampede/harness/history"
	"stampede/harness/sut"
	"stampede/harness/suttest"
	"stampede/systems/sqlbroker"
)

const ms = time.Millisecond

// evidence is a history and an audit that a case may change.
type evidence struct {
	params  sqlbroker.Params
	records []history.Record
	samples []history.Sample
	faults  []history.Window
	audit   sqlbroker.Audit
}

// epoch is what the store's clock shows at the beginning of the run.
const epoch = int64(1e18)

// clock is the store's clock at a moment of the run.
func clock(at time.Duration) int64 { return epoch + at.Nanoseconds() }

// do adds an acknowledged operation that takes 10 ms.
func (e *evidence) do(
	id uint64, kind, queue string, at time.Duration, body any, value int64, reply any,
) {
	e.records = append(e.records, history.Record{
		Seq: uint64(len(e.records)), Op: history.Op{ID: id, Kind: kind, Key: queue, Body: text(body)},
		Outcome: history.OK, Reply: history.Reply{Value: value, Body: text(reply)},
		Intended: at, Start: at, End: at + 10*ms,
	})
}

func text(v any) []byte {
	if v == nil {
		return nil
	}
	body, err := json.Marshal(v)
	if err != nil {
		panic(err) // numbers and strings
	}
	return body
}

// parsed is what text has written.
func parsed[T any](body []byte) (v T) {
	if err := json.Unmarshal(body, &v); err != nil {
		panic(err) // it is of these tests
	}
	return v
}

// cases has the good run and the cases, as it says itself.
//
//go:embed testdata/cases.txt
var cases string

// goodBroker is a small run that every invariant accepts.
func goodBroker() *evidence {
	e := &evidence{params: sqlbroker.DefaultParams()}
	e.params.Queues, e.params.Worked, e.params.MaxReceives = 2, 1, 3
	for _, queue := range []string{"queue-1", "queue-2"} {
		e.audit.Queues = append(e.audit.Queues, sqlbroker.QueueAudit{Queue: queue, VisibilityNS: 1e9,
			MaxReceives: 3, RetentionNS: 3600e9})
	}
	e.follow(strings.Join(sqlbroker.Sections(cases)["run"], ";"))
	for n := range 10 {
		e.follow(fmt.Sprintf(`effect 1536.%d#1 300ms {"consumer":"consumer-%d"};
			row 1536.%d queue-1 {"state":"acked","receives":1,"acked_at_ns":@305ms}`, n, n%2, n))
	}
	return e
}

// follow changes the evidence as a script says: what happens, what else became of an operation,
// or what the audit says otherwise.
func (e *evidence) follow(script string) {
	for step := range strings.SplitSeq(script, ";") {
		words, fields, _ := strings.Cut(strings.TrimSpace(step), "{")
		w := strings.Fields(words)
		if fields = nanoseconds("{" + fields); !e.happens(w, fields) && !e.became(w, fields) &&
			!e.says(w, fields) {
			panic("nobody knows what to do with " + step)
		}
	}
}

// nanoseconds writes @1s and ~1s as numbers.
func nanoseconds(fields string) string {
	return regexp.MustCompile(`[@~][0-9.a-z]+`).ReplaceAllStringFunc(fields, func(s string) string {
		if s[0] == '@' {
			return strconv.FormatInt(clock(duration(s[1:])), 10)
		}
		return strconv.FormatInt(int64(duration(s[1:])), 10)
	})
}

func duration(word string) time.Duration {
	d, err := time.ParseDuration(word)
	if err != nil {
		panic(err) // it is of these tests
	}
	return d
}

// number is a number of a script, parts those of a message or a receipt: "256.1#2" is the second
// delivery of message 256.1.
func number(word string) uint64 { return parsed[uint64]([]byte(word)) }

func parts(word string) (op uint64, index, receives int) {
	w := strings.FieldsFunc(word+"#0", func(r rune) bool { return r == '.' || r == '#' })
	return number(w[0]), int(number(w[1])), int(number(w[2]))
}

// merge changes some fields of what JSON says.
func merge(v any, fields string) {
	if err := json.Unmarshal([]byte(fields), v); err != nil {
		panic(err) // it is of these tests
	}
}

// happens adds an operation: its kind, identity and time and what it is about. A demand that gets
// a message is to queue-2 and gets it in the middle of its time; an extension is by a second.
func (e *evidence) happens(w []string, fields string) bool {
	switch kind := w[0]; kind {
	case sqlbroker.KindPublish:
		n := int(number(w[4]))
		e.do(number(w[1]), kind, w[2], duration(w[3]), sqlbroker.Publication{
			Make: &sqlbroker.Recipe{Messages: n, Group: number(w[5])}}, int64(n), nil)
	case sqlbroker.KindReceive:
		op, index, receives := parts(w[3])
		d := sqlbroker.Delivery{OpID: op, Index: index, Body: fmt.Sprintf("message %d.%d", op, index),
			Receipt: w[3], Receives: receives, ReceivedNS: clock(duration(w[2]) + 5*ms)}
		if d.VisibleNS = d.ReceivedNS + 1e9; op < 1024 {
			d.Group = 7
		}
		e.do(number(w[1]), kind, "queue-2", duration(w[2]), sqlbroker.Demand{Most: 1}, 1,
			[]sqlbroker.Delivery{d})
	case sqlbroker.KindAck, sqlbroker.KindExtend, sqlbroker.KindRelease:
		s, said := sqlbroker.Settlement{Receipts: w[3:]}, sqlbroker.Settled{Done: w[3:]}
		if kind == sqlbroker.KindExtend {
			s.ByMS, said.VisibleNS = 1000, clock(duration(w[2])+5*ms+time.Second)
		}
		e.do(number(w[1]), kind, "queue-2", duration(w[2]), s, 1, said)
	case sqlbroker.KindPurge, sqlbroker.KindRedrive:
		e.do(number(w[1]), kind, w[3], duration(w[2]), nil, 1, nil)
	case "demand":
		e.do(number(w[1]), sqlbroker.KindReceive, w[3], duration(w[2]), sqlbroker.Demand{}, 0,
			[]sqlbroker.Delivery{})
	case sqlbroker.KindCreate:
		e.do(number(w[1]), kind, w[3], duration(w[2]), json.RawMessage(fields), 0, nil)
	default:
		return false
	}
	return true
}

// became changes the first attempt of an operation, or, to refuse it, the last: what it got, said
// or was asked to make, its outcome and its time.
func (e *evidence) became(w []string, fields string) bool {
	if len(w) < 2 || w[1][0] < '0' || w[1][0] > '9' || strings.Contains(w[1], ".") {
		return false
	}
	id := number(w[1])
	of := func(r history.Record) bool { return r.Op.ID == id }
	i := slices.IndexFunc(e.records, of)
	if i < 0 {
		return false
	}
	r := &e.records[i]
	switch w[0] {
	case "got":
		got := parsed[[]sqlbroker.Delivery](r.Reply.Body)
		merge(&got[0], fields)
		r.Reply.Body = text(got)
	case "said":
		said := parsed[sqlbroker.Settled](r.Reply.Body)
		merge(&said, fields)
		r.Reply.Body = text(said)
	case "makes":
		p := parsed[sqlbroker.Publication](r.Op.Body)
		merge(p.Make, fields)
		r.Op.Body = text(p)
	case "reply":
		if w[2] == "prepend" {
			w[2] = " " + string(r.Reply.Body)
		}
		r.Reply.Body = []byte(w[2])
	case "unknown":
		r.Outcome, r.Reply, r.End = history.Unknown, history.Reply{}, history.Never
	case "accept":
		s := parsed[sqlbroker.Settlement](r.Op.Body)
		r.Outcome, r.Code, r.Err = history.OK, "", ""
		r.Reply = history.Reply{Value: 1, Body: text(sqlbroker.Settled{Done: s.Receipts})}
	case "refuse":
		for k := range e.records {
			if of(e.records[k]) {
				r = &e.records[k]
			}
		}
		for _, err := range []error{sqlbroker.ErrStaleReceipt, sqlbroker.ErrTaken,
			sqlbroker.ErrForbidden, sqlbroker.ErrRateLimited, sqlbroker.ErrUnknownQueue} {
			if sut.Code(err) == w[2] {
				suttest.Deny(r, err)
			}
		}
	case "attempt":
		again := *r
		again.Outcome = map[string]history.Outcome{"unknown": history.Unknown,
			"refused": history.Refused}[w[3]]
		again.Start, again.End, again.Reply = duration(w[2]), history.Never, history.Reply{}
		e.records = append(e.records, again)
	case "move":
		r.Start, r.End = duration(w[2]), duration(w[2])+10*ms
	case "until":
		r.End = duration(w[2])
	case "forget":
		e.records = slices.DeleteFunc(e.records, func(r history.Record) bool {
			return slices.Contains(w[1:], strconv.FormatUint(r.Op.ID, 10))
		})
	default:
		return false
	}
	return true
}

// says changes the audit or the parameters.
func (e *evidence) says(w []string, fields string) bool {
	a := &e.audit
	switch w[0] {
	case "row":
		op, index, _ := parts(w[1])
		m := sqlbroker.MessageAudit{OpID: op, Index: index, Queue: w[2]}
		merge(&m, fields)
		a.Messages = append(a.Messages, m)
	case "dead": // of deliveries
		op, index, _ := parts(w[1])
		a.Dead = append(a.Dead, sqlbroker.DeadAudit{OpID: op, Index: index, Queue: w[2], Receives: 3,
			Reason: sqlbroker.DeadReceives, AgeNS: int64(duration(w[3]))})
	case "effect": // of a delivery that lasts a second, after 5 ms
		op, index, receives := parts(w[1])
		at := clock(duration(w[2]))
		x := sqlbroker.EffectAudit{OpID: op, Index: index, Queue: "queue-1", Receives: receives,
			ReceivedNS: at, VisibleNS: at + 1e9, StoredNS: at + 5e6}
		merge(&x, fields)
		a.Effects = append(a.Effects, x)
	case "message", "collect":
		op, index, _ := parts(w[1])
		i := slices.IndexFunc(a.Messages, func(m sqlbroker.MessageAudit) bool {
			return m.OpID == op && m.Index == index
		})
		if w[0] == "collect" {
			a.Messages = slices.Delete(a.Messages, i, i+1)
		} else {
			merge(&a.Messages[i], fields)
		}
	case "letter":
		merge(&a.Dead[number(w[1])], fields)
	case "done":
		merge(&a.Effects[number(w[1])], fields)
	case "fault":
		f := history.Window{Kind: history.FaultWindow}
		merge(&f, fields)
		e.faults = append(e.faults, f)
	case "queue":
		merge(&a.Queues[number(w[1])], fields)
	case "params":
		merge(&e.params, fields)
	default:
		return e.saysOfAll(w, fields)
	}
	return true
}

func (e *evidence) saysOfAll(w []string, fields string) bool {
	a := &e.audit
	switch strings.Join(w, " ") {
	case "no records":
		e.records = nil
	case "no dead":
		a.Dead = []sqlbroker.DeadAudit{}
	case "no effects":
		a.Effects = []sqlbroker.EffectAudit{}
	case "no effect": // of 768.1
		a.Effects = slices.Delete(a.Effects, 1, 2)
	case "effects":
		for i := range a.Effects {
			merge(&a.Effects[i], fields)
		}
	case "effects in-turn":
		for i := range a.Effects {
			at := clock(time.Duration(i+1) * time.Second)
			x := &a.Effects[i]
			x.ReceivedNS, x.VisibleNS, x.StoredNS = at, at+1e9, at+5e6
		}
	case "effects apart":
		for i := range a.Effects {
			a.Effects[i].Queue = sqlbroker.QueueName(i%2 + 1)
		}
	default:
		return false
	}
	return true
}

// judge returns the verdicts by name.
func (e *evidence) judge(t suttest.TB) map[string]check.Verdict {
	return e.judgeRaw(suttest.Encoded(t, e.audit))
}

func (e *evidence) judgeRaw(audit json.RawMessage) map[string]check.Verdict {
	return suttest.Verdicts(sqlbroker.Invariants(e.params),
		history.Slice(e.records, e.faults...).WithSamples(e.samples), audit)
}

// TestClauses: each clause accepts what is right and refuses what is wrong.
func TestClauses(t *testing.T) {
	var list []suttest.Case[*evidence]
	of := sqlbroker.Sections(cases)
	for _, invariant := range proof().Invariants {
		for _, line := range of[invariant] {
			status, line, _ := strings.Cut(line, " ")
			line, says, _ := strings.Cut(line, " => ")
			name, script, is := strings.Cut(line, ": ")
			want, known := map[string]check.Status{"breaks": check.Broken, "holds": check.Held,
				"open": check.Undecided}[status]
			if !is || !known {
				t.Fatalf("this is no case: %s", line)
			}
			list = append(list, suttest.Case[*evidence]{Invariant: invariant, Name: name, Want: want,
				Change: func(e *evidence) { e.follow(script) }, Says: says})
		}
	}
	suttest.Clauses(t, proof(), goodBroker, list)
}

// TestNothingIsUndecided: no history and no audit prove nothing.
func TestNothingIsUndecided(t *testing.T) {
	for _, audit := range []string{"", `{"queues":[],"messages":[],"dead":[],"effects":[]}`} {
		for name, v := range (&evidence{params: sqlbroker.DefaultParams()}).judgeRaw([]byte(audit)) {
			if v.Status != check.Undecided {
				t.Errorf("with the audit %q %s is %s", audit, name, v.Status)
			}
		}
	}
}
