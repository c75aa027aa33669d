package writeheavy_test

import (
	"testing"
	"time"

	"stampede/harness/history"
	"stampede/harness/suttest"
	"stampede/systems/writeheavy"
)

// proof is what the judges of writeheavy are proved by.
func proof() suttest.Proof[*evidence] {
	return suttest.Played(suttest.Proof[*evidence]{
		Unnoticed: map[string][]string{
			"a batch has no client and no key": {"change client of batch",
				"change key of batch"},
			"a read may be refused, and is anybody's": {"deny read",
				"change client of read"},
			"an add that is sent twice is in the log, a batch or the dead letters twice": {"double of log",
				"double of dead", "double of batches", "raise records of batches"},
			"more attempts are as good":         {"raise tries of dead"},
			"the other side may have it sooner": {"lower in_epoch of placed"},
			"the client takes no answer about another counter": {"raise key in answers to read",
				"lower key in answers to read"},
			"a pause is a figure": {"raise paused_ms of handovers",
				"lower paused_ms of handovers"},
			"a sum of another sequence is one": {"exchange seq of partials"},
		},
		Absent: map[string][]string{
			"the answer says nothing": {"exchange answers to add"},
			"none is refused":         {"invent batch", "invent read"},
			"counters are in one piece": {"exchange shard of counters", "raise shard of counters",
				"lower shard of counters"},
			"all are alike": {"exchange tries of dead", "exchange node of partials",
				"exchange epoch of partials", "exchange records of batches", "exchange range of handovers",
				"exchange paused_ms of handovers", "exchange range of placed", "exchange range of sides"},
		},
	}, writeheavy.System(), street, anyStreet, 100, time.Second, countersIn)
}

// TestJudges: the judges are sound, a smoke run decides all of them, and none is vacuous.
func TestJudges(t *testing.T) {
	suttest.Prove(t, proof(), 50, []suttest.Corruption[*evidence]{
		{Name: "a database loses what it had to keep", Breaks: writeheavy.LastIsLost,
			Do: func(e *evidence, pick func(int) int) bool {
				e.Audit.Contract.Async = 600
				return suttest.Change(e.Records, pick, func(r *history.Record) bool {
					return r.Op.Kind == writeheavy.KindAdd && r.Outcome == history.OK && e.made(r.Op.ID) != nil
				}, func(r *history.Record) { without(r.Op.ID)(e) })
			}},
	})
}
