package likes

import (
	"slices"
	"testing"

	"pgregory.net/rapid"

	"stampede/harness/history"
	"stampede/harness/sut"
	"stampede/harness/suttest"
)

// drawLikes is any run of a correct service with any amount of trouble.
func drawLikes(t *rapid.T) *evidence {
	p := DefaultParams()
	share := rapid.Float64Range(0, 1)
	p.Videos = rapid.IntRange(1, 4).Draw(t, "videos")
	p.Users = rapid.IntRange(0, 30).Draw(t, "users")
	p.VideoSkew = rapid.SampledFrom([]string{"uniform", "zipf", "hot", "moving"}).Draw(t, "skew")
	p.ClickTwice, p.Unlike = share.Draw(t, "click"), share.Draw(t, "unlike")
	p.Relike, p.Views = share.Draw(t, "relike"), share.Draw(t, "views")
	p.Reads = 3 * share.Draw(t, "reads")
	p.Think = sut.Duration(rapid.IntRange(0, 300).Draw(t, "think_ms")) * sut.Duration(ms)
	p.ReadTTL = sut.Duration(rapid.IntRange(0, 100).Draw(t, "ttl_ms")) * sut.Duration(ms)
	p.RetryOnLost = rapid.IntRange(0, 4).Draw(t, "retries")
	tr := trouble{suttest.DrawTrouble(t), rapid.Float64Range(0, 0.15).Draw(t, "not logged")}
	return likesOf(t, rapid.Uint64().Draw(t, "seed"), p, tr, rapid.IntRange(1, 3).Draw(t, "regions"),
		rapid.IntRange(0, 120).Draw(t, "ops"))
}

// proof is what the judges of likes are proved by.
func proof() suttest.Proof[*evidence] {
	p := suttest.Proof[*evidence]{Any: drawLikes, Judge: (*evidence).judge,
		Parts: func(e *evidence) ([]history.Record, any) { return e.records, &e.audit },
		Unnoticed: map[string][]string{
			"it is a truth": {"raise value in answers to like",
				"raise value in answers to unlike"},
			"nobody need be told":                 {"deny count"},
			"anybody may read":                    {"change client of count"},
			"a view may be lost":                  {"deny view"},
			"their number is an estimate":         {"change client of view", "change key of view"},
			"it explains a count":                 {"raise shards of videos", "lower shards of videos"},
			"it is an estimate":                   {"raise viewers of videos", "lower viewers of videos"},
			"what is applied twice has no effect": {"lower committed of log"},
			"what is logged twice has no effect":  {"double of log.records"},
			"both are applied":                    {"exchange op of log.records"},
		},
		Absent: map[string][]string{
			"none is refused":          {"invent count", "invent like", "invent unlike", "invent view"},
			"all answers are the same": {"exchange answers to unlike", "exchange answers to view"},
			"all have one shard":       {"exchange shards of videos"},
			"the log begins at offset 0": {"exchange first of log", "raise first of log",
				"lower first of log"},
		},
		Some: func(t *rapid.T) *evidence {
			tr := trouble{suttest.Trouble{LostRequest: 0.01, LostReply: 0.01, Late: 0.01, Dropped: 0.01},
				0.01}
			p := DefaultParams()
			p.Videos = 2
			return likesOf(t, rapid.Uint64().Draw(t, "seed"), p, tr, 1, 150)
		},
		Whole: func(t suttest.TB, seed uint64) *evidence {
			return likesOf(t, seed, DefaultParams(), trouble{}, 1, 1000)
		},
	}
	for _, inv := range Invariants(DefaultParams()) {
		p.Invariants = append(p.Invariants, inv.Name())
	}
	return p
}

// TestJudges: the judges are sound, a smoke run decides all of them, and none is vacuous.
func TestJudges(t *testing.T) {
	suttest.Prove(t, proof(), 20, slices.Concat(countCorruptions(), storeCorruptions()))
}

// corruption is one thing that a correct system never does.
type corruption suttest.Corruption[*evidence]

// lone says that a record is all that its user ever tried to do to a video, and
// that it was acknowledged.
func (e *evidence) lone(rec *history.Record) bool {
	n := 0
	for _, r := range e.records {
		if r.Op.Client == rec.Op.Client && r.Op.Key == rec.Op.Key &&
			(r.Op.Kind == KindLike || r.Op.Kind == KindUnlike) {
			n++
		}
	}
	return n == 1 && rec.Outcome == history.OK && rec.Op.Kind == KindLike
}

func countCorruptions() []corruption {
	shift := func(more int64) func(*evidence, func(int) int) bool {
		return func(e *evidence, pick func(int) int) bool {
			return suttest.Change(e.records, pick, func(r *history.Record) bool {
				return r.Op.Kind == KindCount && r.Outcome == history.OK
			}, func(rec *history.Record) { rec.Reply.Value += more * int64(len(e.records)) })
		}
	}
	return []corruption{
		{"a count far too high", CountInBounds, shift(+1)},
		{"a count far too low", CountInBounds, shift(-1)},
		{"a repeated like that counts", OneLike, func(e *evidence, pick func(int) int) bool {
			return suttest.Change(e.records, pick, e.lone, func(rec *history.Record) {
				again := *rec
				again.Op.ID, again.Seq = 1<<40, uint64(len(e.records))
				e.records = append(e.records, again)
			})
		}},
		{"a like that changes nothing", OneLike, func(e *evidence, pick func(int) int) bool {
			return suttest.Change(e.records, pick, e.lone, func(rec *history.Record) { rec.Reply.Value = 0 })
		}},
		{"twice as many viewers", ViewersEstimated, func(e *evidence, _ func(int) int) bool {
			e.audit.Videos[0].Viewers = 2*e.audit.Videos[0].Viewers + 20
			return true
		}},
	}
}

func storeCorruptions() []corruption {
	return []corruption{
		{"a counter that drifts", StoresAgree, func(e *evidence, pick func(int) int) bool {
			e.audit.Videos[0].Counts[0] += []int64{-5, -1, 1, 5}[pick(4)]
			return true
		}},
		{"likes that every store lost", StoresAgree, func(e *evidence, pick func(int) int) bool {
			if suttest.PickFrom(e.records, pick, e.lone) == nil {
				return false
			}
			v := &e.audit.Videos[0]
			v.Members, v.Ledger, v.Counts[0] = Packed{}, Packed{}, 0
			return true
		}},
	}
}
