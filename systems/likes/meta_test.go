package likes_test

import (
	"slices"
	"testing"

	"pgregory.net/rapid"

	"stampede/harness/history"
	"stampede/harness/sut"
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
	mishap := rapid.Float64Range(0, 0.15)
	tr := trouble{
		lostRequest: mishap.Draw(t, "lost requests"), lostReply: mishap.Draw(t, "lost replies"),
		late: mishap.Draw(t, "late"), hang: mishap.Draw(t, "hanging"),
		dialFails: mishap.Draw(t, "failed dials"), dropped: mishap.Draw(t, "dropped"),
		unlogged: mishap.Draw(t, "not logged"),
	}
	return likesOf(t, rapid.Uint64().Draw(t, "seed"), p, tr, rapid.IntRange(1, 3).Draw(t, "regions"),
		rapid.IntRange(0, 120).Draw(t, "ops"))
}

// TestCorrectServiceIsNeverBroken: the judges are sound.
func TestCorrectServiceIsNeverBroken(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		for name, v := range drawLikes(t).judge(t) {
			if v.Status == fail {
				t.Fatalf("%s is broken: %+v", name, v.Violations)
			}
		}
	})
}

// TestSmokeRunDecidesAll: the default parameters exercise every invariant,
// whatever the seed.
func TestSmokeRunDecidesAll(t *testing.T) {
	for seed := range uint64(20) {
		e := likesOf(t, seed, likes.DefaultParams(), trouble{}, 1, 1000)
		for name, v := range e.judge(t) {
			if v.Status != pass {
				t.Errorf("seed %d: %s is %s: %s", seed, name, v.Status, v.Reason)
			}
		}
	}
}

// corruption is one thing that a correct system never does.
type corruption struct {
	name, breaks string
	// do changes the evidence; it returns false if the run has nothing to change.
	do func(t *rapid.T, e *evidence) bool
}

// TestCorruptionsAreCaught: the judges are not vacuous, also in the midst of
// unknown outcomes.
func TestCorruptionsAreCaught(t *testing.T) {
	for _, c := range slices.Concat(countCorruptions(), storeCorruptions(), logCorruptions()) {
		t.Run(c.name, func(t *testing.T) {
			done := 0
			rapid.Check(t, func(t *rapid.T) {
				tr := trouble{lostRequest: 0.01, lostReply: 0.01, late: 0.01, dropped: 0.01, unlogged: 0.01}
				e := likesOf(t, rapid.Uint64().Draw(t, "seed"), likes.DefaultParams(), tr, 1, 150)
				if !c.do(t, e) {
					return
				}
				done++
				if v := e.judge(t)[c.breaks]; v.Status != fail || v.Count == 0 {
					t.Fatalf("%s is %s: %s", c.breaks, v.Status, v.Reason)
				}
			})
			if done == 0 {
				t.Error("no run had anything to corrupt")
			}
		})
	}
}

// pickRecord draws a record that fits; nil if there is none.
func pickRecord(t *rapid.T, e *evidence, fits func(*history.Record) bool) *history.Record {
	var fit []int
	for i := range e.records {
		if fits(&e.records[i]) {
			fit = append(fit, i)
		}
	}
	if len(fit) == 0 {
		return nil
	}
	return &e.records[rapid.SampledFrom(fit).Draw(t, "record")]
}

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
	shift := func(more int64) func(*rapid.T, *evidence) bool {
		return func(t *rapid.T, e *evidence) bool {
			rec := pickRecord(t, e, func(r *history.Record) bool {
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
		{"a repeated like that counts", likes.OneLike, func(t *rapid.T, e *evidence) bool {
			rec := pickRecord(t, e, e.lone)
			if rec == nil {
				return false
			}
			again := *rec
			again.Op.ID, again.Seq = 1<<40, uint64(len(e.records))
			e.records = append(e.records, again)
			return true
		}},
		{"a like that changes nothing", likes.OneLike, func(t *rapid.T, e *evidence) bool {
			rec := pickRecord(t, e, e.lone)
			if rec == nil {
				return false
			}
			rec.Reply.Value = 0
			return true
		}},
		{"a like that is forgotten", likes.OneLike, func(t *rapid.T, e *evidence) bool {
			rec := pickRecord(t, e, e.lone)
			if rec == nil {
				return false
			}
			user := number(rec.Op.Client)
			v := e.video(number(rec.Op.Key))
			v.Members = slices.DeleteFunc(v.Members, func(u uint64) bool { return u == user })
			return true
		}},
		{"twice as many viewers", likes.ViewersEstimated, func(_ *rapid.T, e *evidence) bool {
			e.audit.Videos[0].Viewers = 2*e.audit.Videos[0].Viewers + 20
			return true
		}},
	}
}

func storeCorruptions() []corruption {
	return []corruption{
		{"a counter that drifts", likes.StoresAgree, func(t *rapid.T, e *evidence) bool {
			by := rapid.Int64Range(1, 5).Draw(t, "by")
			if rapid.Bool().Draw(t, "down") {
				by = -by
			}
			e.audit.Videos[0].Counts[0] += by
			return true
		}},
		{"a member that the ledger lacks", likes.StoresAgree, func(_ *rapid.T, e *evidence) bool {
			v := &e.audit.Videos[0]
			v.Members = append(v.Members, 1<<40)
			return true
		}},
		{"likes that every store lost", likes.StoresAgree, func(t *rapid.T, e *evidence) bool {
			if pickRecord(t, e, e.lone) == nil {
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
		{"an acknowledged like that is gone", likes.AckedDurable, func(t *rapid.T, e *evidence) bool {
			rec := pickRecord(t, e, e.lone)
			if rec == nil {
				return false
			}
			e.audit.Logged = slices.DeleteFunc(e.audit.Logged,
				func(op uint64) bool { return op == rec.Op.ID })
			return true
		}},
		{"an interaction that nobody asked for", likes.NoPhantom, func(_ *rapid.T, e *evidence) bool {
			e.audit.Logged = append(e.audit.Logged, 1<<40)
			return true
		}},
		{"an event that the ledger missed", likes.LedgerIsLog, func(t *rapid.T, e *evidence) bool {
			i := rapid.IntRange(0, len(e.audit.Logged)-1).Draw(t, "event")
			e.audit.Logged = slices.Delete(e.audit.Logged, i, i+1)
			return true
		}},
		{"an event that left the log", likes.LedgerIsLog, func(t *rapid.T, e *evidence) bool {
			rec := pickRecord(t, e, e.lone)
			if rec == nil {
				return false
			}
			for p := range e.audit.Log {
				e.audit.Log[p].Records = slices.DeleteFunc(e.audit.Log[p].Records,
					func(ev likes.Event) bool { return ev.OpID == rec.Op.ID })
			}
			return true
		}},
		{"a count that the log does not have", likes.LedgerIsLog, func(_ *rapid.T, e *evidence) bool {
			v := &e.audit.Videos[0]
			v.Ledger = append(v.Ledger, 1<<40)
			return true
		}},
		{"an offset committed too soon", likes.AppliedFirst, func(t *rapid.T, e *evidence) bool {
			p := &e.audit.Log[rapid.IntRange(0, 1).Draw(t, "partition")]
			if len(p.Records) == 0 {
				return false
			}
			op := rapid.SampledFrom(p.Records).Draw(t, "event").OpID
			e.audit.Logged = slices.DeleteFunc(e.audit.Logged, func(o uint64) bool { return o == op })
			return true
		}},
	}
}
