package topk_test

import (
	"testing"
	"time"

	"stampede/harness/suttest"
	"stampede/systems/topk"
)

// proof is what the judges of topk are proved by.
func proof() suttest.Proof[*evidence] {
	return suttest.Played(suttest.Proof[*evidence]{
		Unnoticed: map[string][]string{
			"it says only whether there was anything to merge": {"raise shards of windows",
				"lower shards of windows"},
			"a batch has no client and no key, and neither has a read": {"change client of record",
				"change key of record", "change client of top", "change key of top"},
			"a read may be refused": {"deny top"},
			"the client takes no answer about another window": {"raise window in answers to top",
				"lower window in answers to top"},
			"one more or less may be counted so far": {"raise total in answers to top",
				"lower total in answers to top"},
			"one that is missing leaves it undecided": {"drop of estimates"},
			"an equal one is the same":                {"double of estimates"},
			"one more is within the error": {"raise uniques of windows", "lower uniques of windows",
				"raise approx of windows", "lower approx of windows"},
		},
		Absent: map[string][]string{
			"none is refused":          {"invent record", "invent top"},
			"all batches are as large": {"exchange answers to record", "exchange events of log"},
			"all have as many":         {"exchange shards of windows"},
		},
	}, topk.System(), stream, anyStream, 100, time.Second, newLog)
}

// TestJudges: the judges are sound, a smoke run decides all of them, and none is vacuous.
func TestJudges(t *testing.T) {
	suttest.Prove(t, proof(), 50, []suttest.Corruption[*evidence]{
		{Name: "a batch is there once more than it was sent", Breaks: topk.AckedInLog,
			Do: func(e *evidence, pick func(int) int) bool {
				one := e.Audit.Log[pick(len(e.Audit.Log))]
				for range 1 + len(e.Records) {
					e.Audit.Log = append(e.Audit.Log, one)
				}
				return true
			}},
		{Name: "late events are in the next window", Breaks: topk.WindowTotals,
			Do: func(e *evidence, pick func(int) int) bool {
				e.Audit.Windows[0].Events--
				e.Audit.Windows[1].Events++
				return true
			}},
		{Name: "an estimate is too high", Breaks: topk.EstimatesBounded,
			Do: func(e *evidence, pick func(int) int) bool {
				e.Audit.Estimates[pick(len(e.Audit.Estimates))].Count += 10_000
				return true
			}},
		{Name: "the evicted key's count is dropped", Breaks: topk.EstimatesBounded,
			Do: func(e *evidence, pick func(int) int) bool {
				suttest.PickFrom(e.Audit.Estimates, pick,
					func(row *topk.EstimateRow) bool { return row.Count > 0 }).Count = 0
				return true
			}},
		{Name: "the heaviest key is left out", Breaks: topk.HeavyPresent,
			Do: func(e *evidence, _ func(int) int) bool {
				e.Audit.Top = e.Audit.Top[1:]
				return true
			}},
		{Name: "a part is not merged", Breaks: topk.MergedAsOne,
			Do: func(e *evidence, pick func(int) int) bool {
				e.Audit.Estimates[pick(len(e.Audit.Estimates))].OnePass += 5
				return true
			}},
	})
}
