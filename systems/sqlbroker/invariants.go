package sqlbroker

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"

	"stampede/harness/check"
	"stampede/harness/history"
)

// Names of the invariants, as variants list them in Breaks and NotApplicable.
const (
	NoLoss         = "no-loss"
	NoPhantom      = "no-phantom"
	OncePlaced     = "once-placed"
	WorkedOff      = "worked-off"
	EffectsOnce    = "effects-once"
	VisibilityKept = "visibility-kept"
	AckFinal       = "ack-final"
	ReceiptFenced  = "receipt-fenced"
	ReceiveCount   = "receive-count"
	DeadLetters    = "dead-letters"
	GroupOrder     = "group-order"
)

// Invariants returns the statements about a broker with the given parameters (a Params
// or *Params; anything else leaves all of them Undecided). Each judges from the history
// and the Audit alone, so that it says the same of a variant here and of a server that
// somebody else wrote.
func Invariants(params any) []check.Invariant {
	p, err := paramsOf(params)
	s := &subject{params: p, err: err}
	state := func(name, statement string, judge func(*judging)) check.Invariant {
		return invariant{name: name, statement: statement, judge: judge, subject: s}
	}
	return []check.Invariant{
		state(NoLoss, "every message that was published and acknowledged as such is in its queue at "+
			"the end, with a consumer, among the dead letters, or was acknowledged by one who had "+
			"received it", judgeLoss),
		state(NoPhantom, "every message, delivery and effect is of a message that somebody published, "+
			"with its body and in its queue", judgePhantoms),
		state(OncePlaced, "every message is in one place only: in its queue once, or among the dead "+
			"letters once, or worked off, however often it was published; a repeated publication is not "+
			"denied", judgePlaces),
		state(WorkedOff, "at rest, nothing waits in a queue that consumers work off", judgeWork),
		state(EffectsOnce, "every message that consumers have acknowledged has one effect, and no other "+
			"message has any", judgeEffects),
		state(VisibilityKept, "a message is not delivered before its delay is over, nor again before "+
			"the time of a delivery is over, unless it was given back", judgeVisibility),
		state(AckFinal, "a message that was acknowledged with a good receipt is never delivered again, "+
			"and neither waits nor is dead at the end", judgeFinal),
		state(ReceiptFenced, "a receipt is good until its time is over or it is used up, and refused "+
			"from then on", judgeReceipts),
		state(ReceiveCount, "a message says how often it was delivered, give or take what was delivered "+
			"in a lost answer", judgeReceives),
		state(DeadLetters, "a message is a dead letter if and only if it was delivered as often as it "+
			"may be, or is older than its queue keeps messages; consumers give back only what cannot be "+
			"worked off, which dies alone", judgeDead),
		state(GroupOrder, "of a group, one message at a time is with a consumer, and none is "+
			"delivered while an earlier one is not acknowledged", judgeGroups),
	}
}

// invariant is one statement with the function that judges it.
type invariant struct {
	name, statement string
	judge           func(*judging)
	subject         *subject
}

func (v invariant) Name() string      { return v.name }
func (v invariant) Statement() string { return v.statement }

// Check judges. See check.Invariant.
func (v invariant) Check(
	ctx context.Context, h history.History, audit json.RawMessage,
) check.Verdict {
	j := &judging{Collector: check.Collect(ctx, v.name, h), p: v.subject.params}
	if v.subject.err != nil {
		j.Fail("%v", v.subject.err)
		return j.Verdict()
	}
	var err error
	if j.a, err = v.subject.decode(audit); err != nil {
		j.Fail("the final audit cannot be read: %v", err)
		return j.Verdict()
	}
	j.facts = gather(j)
	v.judge(j)
	return j.Verdict()
}

// subject is what the invariants of one run share: the parameters and the audit that
// was decoded last, because all of them are asked about the same one.
type subject struct {
	params Params
	err    error

	mu   sync.Mutex
	raw  string
	last Audit
	bad  error
}

// decode returns the audit; it must not be modified.
func (s *subject) decode(raw json.RawMessage) (Audit, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.raw != string(raw) || s.raw == "" {
		s.raw = string(raw)
		s.last, s.bad = DecodeAudit(raw)
	}
	return s.last, s.bad
}

// judging is one invariant being judged.
type judging struct {
	*check.Collector
	*facts
	p Params
	a Audit
}

// DecodeAudit reads an Audit from JSON and checks that it can be judged. Fields that it
// does not know are skipped. The error names one bad field.
func DecodeAudit(raw json.RawMessage) (Audit, error) {
	var a Audit
	if len(raw) == 0 || string(raw) == "null" {
		return a, fmt.Errorf("there is none")
	}
	if err := json.Unmarshal(raw, &a); err != nil {
		return Audit{}, fmt.Errorf("decoding the audit: %w", err)
	}
	if err := a.check(); err != nil {
		return Audit{}, fmt.Errorf("decoding the audit: %w", err)
	}
	return a, nil
}

func (a *Audit) check() error {
	if a.Queues == nil || a.Messages == nil || a.Dead == nil || a.Effects == nil {
		return fmt.Errorf("queues, messages, dead or effects is missing")
	}
	for i, q := range a.Queues {
		if q.Queue == "" || q.VisibilityNS <= 0 || q.MaxReceives <= 0 || q.RetentionNS <= 0 {
			return fmt.Errorf("queues[%d]: expected a name and settings above zero, got %+v", i, q)
		}
	}
	for i, m := range a.Messages {
		switch m.State {
		case StateReady, StateDelayed, StatePicked, StateAcked:
		default:
			return fmt.Errorf("messages[%d].state: expected ready, delayed, picked or acked, got %q", i,
				m.State)
		}
		if m.Receives < 0 || m.Index < 0 {
			return fmt.Errorf("messages[%d]: expected an index and receives of 0 or more, got %+v", i, m)
		}
	}
	for i, d := range a.Dead {
		if d.Reason != DeadReceives && d.Reason != DeadRetention {
			return fmt.Errorf("dead[%d].reason: expected receives or retention, got %q", i, d.Reason)
		}
	}
	for i, e := range a.Effects {
		if e.ReceivedNS <= 0 || e.VisibleNS < e.ReceivedNS {
			return fmt.Errorf("effects[%d]: expected a delivery that ends after it begins, got %+v", i, e)
		}
	}
	return nil
}
