package sqlbroker

import (
	"context"
	"encoding/json"
	"sync"

	"stampede/harness/api"
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

// Invariants returns the statements about a broker with the given parameters. Each judges
// from the history and the Audit alone, so that it says the same of a design here and of a
// server that somebody else wrote.
func Invariants(p Params) []check.Invariant {
	s := &subject{params: p}
	state := func(name, statement string, judge func(*judging)) check.Invariant {
		return invariant{name: name, statement: statement, judge: judge, subject: s}
	}
	return []check.Invariant{
		state(NoLoss, "every message whose publication was acknowledged is, at the end, in its queue, "+
			"with a consumer or among the dead letters, or was acknowledged by a consumer that had "+
			"received it", judgeLoss),
		state(NoPhantom, "every message, delivery and effect belongs to a published message, with its "+
			"body and in its queue", judgePhantoms),
		state(OncePlaced, "every message is in one place only, however often it was published: once in "+
			"its queue, once among the dead letters, or processed; a repeated publication is not "+
			"denied", judgePlaces),
		state(WorkedOff, "at rest, no message waits in a queue that consumers process", judgeWork),
		state(EffectsOnce, "every message that consumers acknowledged has exactly one effect, and no "+
			"other message has one", judgeEffects),
		state(VisibilityKept, "a message is not delivered before its delay is over, nor again before "+
			"its visibility timeout is over, unless it was released", judgeVisibility),
		state(AckFinal, "a message acknowledged with a valid receipt is never delivered again, and at "+
			"the end is neither waiting nor a dead letter", judgeFinal),
		state(ReceiptFenced, "a receipt is accepted until it expires or is used, and refused from then "+
			"on", judgeReceipts),
		state(ReceiveCount, "the delivery count of a message is right, except for deliveries in lost "+
			"answers", judgeReceives),
		state(DeadLetters, "a message is a dead letter if and only if it reached its maximum of "+
			"deliveries or is older than its queue's retention; consumers release only messages that they "+
			"cannot process, and no others of the batch become dead letters", judgeDead),
		state(GroupOrder, "only one message of a group is with a consumer at a time, and none is "+
			"delivered before the earlier ones are acknowledged", judgeGroups),
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
		s.last, s.bad = api.DecodeAudit[Audit](raw)
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
