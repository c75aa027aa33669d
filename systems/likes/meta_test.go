package likes_test

import (
	"slices"
	"testing"

	"pgregory.net/rapid"

	"stampede/harness/history"
	"stampede/harness/sut"
	"stampede/harness/suttest"
	"stampede/systems/likes"
)

// drawLikes is any run of a correct service with any amount of trouble.
func drawLikes(t *rapid.T) *evidence {
	p := likes.DefaultParams()
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
		Some: func(t *rapid.T) *evidence {
			tr := trouble{suttest.Trouble{LostRequest: 0.01, LostReply: 0.01, Late: 0.01, Dropped: 0.01},
				0.01}
			return likesOf(t, rapid.Uint64().Draw(t, "seed"), likes.DefaultParams(), tr, 1, 150)
		},
		Whole: func(t suttest.TB, seed uint64) *evidence {
			return likesOf(t, seed, likes.DefaultParams(), trouble{}, 1, 1000)
		},
	}
	for _, inv := range likes.Invariants(likes.DefaultParams()) {
		p.Invariants = append(p.Invariants, inv.Name())
	}
	return p
}

// TestJudges: the judges are sound, a smoke run decides all of them, and none is vacuous.
func TestJudges(t *testing.T) {
	t.Run("sound", proof().Sound)
	t.Run("decided", func(t *testing.T) { proof().Decides(t, 20) })
	suttest.Caught(t, proof(), slices.Concat(countCorruptions(), storeCorruptions(),
		logCorruptions()))
}

// corruption is one thing that a correct system never does.
type corruption suttest.Corruption[*evidence]

// lone says that a record is all that its user ever tried to do to a video, and
// that it was acknowledged.
func (e *evidence) lone(rec *history.Record) bool {
	n := 0
	for _, r := range e.records {
		if r.Op.Client == rec.Op.Client && r.Op.Key == rec.Op.Key &&
			(r.Op.Kind == likes.KindLike || r.Op.Kind == likes.KindUnlike) {
			n++
		}
	}
	return n == 1 && rec.Outcome == history.OK && rec.Op.Kind == likes.KindLike
}

func countCorruptions() []corruption {
	shift := func(more int64) func(*evidence, func(int) int) bool {
		return func(e *evidence, pick func(int) int) bool {
			rec := suttest.PickFrom(e.records, pick, func(r *history.Record) bool {
				return r.Op.Kind == likes.KindCount && r.Outcome == history.OK
			})
			if rec == nil {
				return false
			}
			rec.Reply.Value += more * int64(len(e.records))
			return true
		}
	}
	return []corruption{
		{"a count far too high", likes.CountInBounds, shift(+1)},
		{"a count far too low", likes.CountInBounds, shift(-1)},
		{"a repeated like that counts", likes.OneLike, func(e *evidence, pick func(int) int) bool {
			rec := suttest.PickFrom(e.records, pick, e.lone)
			if rec == nil {
				return false
			}
			again := *rec
			again.Op.ID, again.Seq = 1<<40, uint64(len(e.records))
			e.records = append(e.records, again)
			return true
		}},
		{"a like that changes nothing", likes.OneLike, func(e *evidence, pick func(int) int) bool {
			rec := suttest.PickFrom(e.records, pick, e.lone)
			if rec == nil {
				return false
			}
			rec.Reply.Value = 0
			return true
		}},
		{"a like that is forgotten", likes.OneLike, func(e *evidence, pick func(int) int) bool {
			rec := suttest.PickFrom(e.records, pick, e.lone)
			if rec == nil {
				return false
			}
			user := number(rec.Op.Client)
			v := e.video(number(rec.Op.Key))
			v.Members = slices.DeleteFunc(v.Members, func(u uint64) bool { return u == user })
			return true
		}},
		{"twice as many viewers", likes.ViewersEstimated, func(e *evidence, _ func(int) int) bool {
			e.audit.Videos[0].Viewers = 2*e.audit.Videos[0].Viewers + 20
			return true
		}},
	}
}

func storeCorruptions() []corruption {
	return []corruption{
		{"a counter that drifts", likes.StoresAgree, func(e *evidence, pick func(int) int) bool {
			e.audit.Videos[0].Counts[0] += []int64{-5, -1, 1, 5}[pick(4)]
			return true
		}},
		{"a member that the ledger lacks", likes.StoresAgree, func(e *evidence, _ func(int) int) bool {
			v := &e.audit.Videos[0]
			v.Members = append(v.Members, 1<<40)
			return true
		}},
		{"likes that every store lost", likes.StoresAgree, func(e *evidence, pick func(int) int) bool {
			if suttest.PickFrom(e.records, pick, e.lone) == nil {
				return false
			}
			v := &e.audit.Videos[0]
			v.Members, v.Ledger, v.Counts[0] = likes.Packed{}, likes.Packed{}, 0
			return true
		}},
	}
}

func logCorruptions() []corruption {
	return []corruption{
		{"an acknowledged like that is gone", likes.AckedDurable,
			func(e *evidence, pick func(int) int) bool {
				rec := suttest.PickFrom(e.records, pick, e.lone)
				if rec == nil {
					return false
				}
				e.audit.Logged = slices.DeleteFunc(e.audit.Logged,
					func(op uint64) bool { return op == rec.Op.ID })
				return true
			}},
		{"an interaction that nobody asked for", likes.NoPhantom,
			func(e *evidence, _ func(int) int) bool {
				e.audit.Logged = append(e.audit.Logged, 1<<40)
				return true
			}},
		{"an event that the ledger missed", likes.LedgerIsLog,
			func(e *evidence, pick func(int) int) bool {
				i := pick(len(e.audit.Logged))
				e.audit.Logged = slices.Delete(e.audit.Logged, i, i+1)
				return true
			}},
		{"an event that left the log", likes.LedgerIsLog, func(e *evidence, pick func(int) int) bool {
			rec := suttest.PickFrom(e.records, pick, e.lone)
			if rec == nil {
				return false
			}
			for p := range e.audit.Log {
				e.audit.Log[p].Records = slices.DeleteFunc(e.audit.Log[p].Records,
					func(ev likes.Event) bool { return ev.OpID == rec.Op.ID })
			}
			return true
		}},
		{"a count that the log does not have", likes.LedgerIsLog,
			func(e *evidence, _ func(int) int) bool {
				v := &e.audit.Videos[0]
				v.Ledger = append(v.Ledger, 1<<40)
				return true
			}},
		{"an offset committed too soon", likes.AppliedFirst,
			func(e *evidence, pick func(int) int) bool {
				p := &e.audit.Log[pick(2)]
				if len(p.Records) == 0 {
					return false
				}
				op := p.Records[pick(len(p.Records))].OpID
				e.audit.Logged = slices.DeleteFunc(e.audit.Logged, func(o uint64) bool { return o == op })
				return true
			}},
	}
}
