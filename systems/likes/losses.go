package likes

import (
	"slices"
	"strings"
	"sync"
	"time"

	"stampede/harness/check"
	"stampede/harness/history"
)

const (
	// lossBefore is how long before a server's death an interaction may have been
	// acknowledged that was still in its buffer. What is older was logged, or the
	// log did not answer and the buffer was full.
	lossBefore = 5 * time.Second
	// lossTogether is how far apart a server's death and the loss of Redis may be to
	// take the same interactions: later, the repairer has logged from Redis what the
	// buffer had.
	lossTogether = 5 * time.Second
)

// losses is what a design declares to lose: what was in the buffer of a server that died while
// Redis lost its data too. A server that is paused, cut off or stopped keeps its buffer or
// empties it.
func (f *final) losses(r *check.Run) ([]check.Loss, error) {
	together := slices.DeleteFunc(r.Faults(), func(w history.Window) bool {
		return len(lossesWith(w, r.Faults())) == 0
	})
	return check.LossesOfDeaths("likes in the buffer of a server that died together with Redis",
		"they are acknowledged before they are logged", f.Contract.LossBound, together, "api",
		func(history.Window) time.Duration { return lossBefore })
}

// followed excuses interactions that were acknowledged from the buffer of a server that died
// alone, are not in the ledger, and did not end after every other one of the same user with
// the same video that is. Of those in a buffer Redis remembers the last one of each user and
// video, from where it is logged; what had gone before had its effect. A design declares of
// how many that may be true.
func (f *final) followed(r *check.Run) func(op uint64) bool {
	var deaths []history.Window
	most := int64(0)
	for _, w := range r.Faults() {
		if n := int64(check.Deaths(w, "api")); n > 0 {
			most += n * f.Contract.LossBound
			deaths = append(deaths, history.Window{Start: w.Start - lossBefore, End: w.End})
		}
	}
	if f.Contract.Ack != AckBuffer || len(deaths) == 0 {
		return nil
	}
	type missing struct {
		op    uint64
		who   pairID
		start time.Duration
	}
	var unlogged []missing
	logged, last := r.Table(interactions), map[pairID]time.Duration{}
	f.see(r, func(rec *history.Record, who pairID) {
		switch {
		case logged.Op(rec.Op.ID) != nil:
			last[who] = max(last[who], rec.End)
		case rec.Outcome == history.OK && within(deaths, rec.End):
			unlogged = append(unlogged, missing{rec.Op.ID, who, rec.Start})
		}
	}, KindLike, KindUnlike)
	list := sync.OnceValue(func() (ops []uint64) {
		for _, m := range unlogged {
			if last[m.who] > m.start {
				ops = append(ops, m.op)
			}
		}
		slices.Sort(ops)
		ops = slices.Compact(ops)
		ops = ops[:min(int64(len(ops)), most)]
		if len(ops) > 0 {
			r.Note("%d acknowledged interactions are not in the ledger: each was in the buffer of a "+
				"server that died, and a later one of the same user is there", len(ops))
		}
		return ops
	})
	return func(op uint64) bool {
		_, found := slices.BinarySearch(list(), op)
		return found
	}
}

// doubts are spans in which a design acknowledged what the counters may not have had
// afterwards. They begin a while before a server and Redis were broken together, whatever way
// the server was: one that sleeps or cannot reach a store keeps its buffer and logs it later
// than the counters are rebuilt.
func (f *final) doubts(faults []history.Window) (list []history.Window) {
	if f.Contract.Ack != AckBuffer {
		return nil
	}
	for _, broken := range faults {
		if !check.Strikes(broken, "api", "kill", "crash", "churn", "pause", "partition") {
			continue
		}
		for _, loss := range lossesWith(broken, faults) {
			list = append(list, history.Window{Start: min(broken.Start, loss.Start) - lossBefore,
				End: max(broken.End, loss.End)})
		}
	}
	return list
}

// within says whether a moment is in one of some windows.
func within(windows []history.Window, at time.Duration) bool {
	return slices.ContainsFunc(windows, func(w history.Window) bool {
		return w.Start <= at && at <= w.End
	})
}

// lossesWith are the losses of Redis that came together with another fault.
func lossesWith(other history.Window, faults []history.Window) (losses []history.Window) {
	for _, loss := range faults {
		if redisLost(loss) && loss.Start <= other.End+lossTogether &&
			other.Start <= loss.End+lossTogether {
			losses = append(losses, loss)
		}
	}
	return losses
}

// redisLost says whether a fault takes data of Redis. A kill alone takes none: what
// Redis wrote to its log is the kernel's by then.
func redisLost(w history.Window) bool {
	return check.Strikes(w, "redis", "power-loss") ||
		check.Strikes(w, "redis", "kill", "crash") && slices.Contains(strings.Fields(w.Fault), "wipe")
}
