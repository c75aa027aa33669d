package writeheavy

import (
	"cmp"
	"slices"

	"stampede/harness/check"
	"stampede/harness/history"
)

// moving says whether a design moves ranges, and notes it if not.
func (j judged) moving() bool {
	if !j.Contract.Moves {
		j.Checked(1)
		j.Note("no keys move between shards")
	}
	return j.Contract.Moves
}

// place is a shard's part of the keys.
type place struct{ in, at int64 }

// owners returns, for each range, the maps of its owners from epoch 1 on. A hand-over from a shard
// that is not the owner is a violation.
func (j judged) owners() map[int64][]int64 {
	rows := slices.Clone(j.Handovers)
	slices.SortFunc(rows, func(a, b Handover) int { return cmp.Compare(a.Epoch, b.Epoch) })
	owners := map[int64][]int64{}
	of := func(in int64) []int64 {
		if owners[in] == nil {
			owners[in] = []int64{oldMap}
		}
		return owners[in]
	}
	for _, p := range j.Placed {
		of(p.Range)
	}
	for _, h := range rows {
		j.Checked(1)
		list := of(h.Range)
		if h.Epoch != int64(len(list))+1 || h.Source != list[len(list)-1] || h.Target == h.Source {
			j.Violate(nil, "range %d went from map %d to map %d in epoch %d, after owners in the maps %v",
				h.Range, h.Source, h.Target, h.Epoch, list)
		}
		owners[h.Range] = append(list, h.Target)
	}
	return owners
}

// oneOwner follows each range: an add is taken by the owner of its epoch, and epochs only rise.
func oneOwner(j judged) {
	if !j.moving() {
		return
	}
	owners := j.owners()
	taken, ranges := map[uint64]Placed{}, map[uint64]int64{}
	for _, p := range j.Placed {
		if p.Came == "owner" {
			if other, twice := taken[p.ID]; twice {
				j.Violate([]uint64{p.ID}, "operation %d was taken in map %d and in map %d", p.ID, other.Map,
					p.Map)
			}
			taken[p.ID] = p
		}
		if in, known := ranges[p.Key]; known && in != p.Range {
			j.Violate([]uint64{p.ID}, "counter %d is in the ranges %d and %d", p.Key, in, p.Range)
		}
		ranges[p.Key] = p.Range
	}
	inEpoch := map[place][]uint64{}
	for _, p := range j.Placed {
		j.Checked(1)
		from, known := taken[p.ID]
		switch list := owners[p.Range]; {
		case !known:
			j.Violate([]uint64{p.ID}, "operation %d is in map %d, and no owner has taken it", p.ID, p.Map)
		case p.Epoch != from.Epoch || p.Range != from.Range:
			j.Violate([]uint64{p.ID}, "operation %d was taken in epoch %d of range %d, and is in map %d "+
				"with epoch %d of range %d", p.ID, from.Epoch, from.Range, p.Map, p.Epoch, p.Range)
		case p.Epoch > int64(len(list)):
			j.Unfinished([]uint64{p.ID}, "operation %d was taken in epoch %d of range %d, which has not "+
				"begun", p.ID, p.Epoch, p.Range)
		case p.Epoch < 1 || list[p.Epoch-1] != from.Map:
			j.Violate([]uint64{p.ID}, "operation %d was taken in map %d in epoch %d of range %d, whose "+
				"owners were in the maps %v", p.ID, from.Map, p.Epoch, p.Range, list)
		case p.Came == "owner":
			inEpoch[place{p.Range, p.Epoch}] = append(inEpoch[place{p.Range, p.Epoch}], p.ID)
		}
	}
	// An add that was acknowledged before another one was sent is in no later epoch than that one.
	back := false
	for in, list := range owners {
		j.risingEpochs(in, len(list), inEpoch)
		for i := 1; i < len(list); i++ {
			back = back || list[i] == oldMap && len(inEpoch[place{in, int64(i)}]) > 0
		}
	}
	j.Need(len(j.Handovers) > 0, "no range got another owner")
	j.NeedTimely(back, "no range went back to its old owner after the new one had taken adds")
	j.NeedTimely(j.Turned > 0, "no request came to a shard that was no longer the owner")
	j.Note("%d requests came to a shard that was no longer the owner, and were sent on", j.Turned)
}

// risingEpochs compares the times of a range's adds with their epochs.
func (j judged) risingEpochs(in int64, epochs int, inEpoch map[place][]uint64) {
	// The first that was acknowledged in a later epoch.
	later, when := uint64(0), history.Never
	for epoch := int64(epochs); epoch > 0; epoch-- {
		ids := inEpoch[place{in, epoch}]
		for _, id := range ids {
			j.Checked(1)
			if op, known := j.truth.ops[id]; known && op.May() && op.Start > when {
				j.Violate([]uint64{later, id}, "operation %d was taken in epoch %d of range %d, after "+
					"operation %d was acknowledged in a later one", id, epoch, in, later)
			}
		}
		for _, id := range ids {
			if op := j.truth.ops[id]; op.Outcome == history.OK && op.End < when {
				later, when = id, op.End
			}
		}
	}
}

func (p Placed) twin() bool { return p.Came == "twin" }

// movedWhole compares both sides of each change of owners, as they were then: an add is in the
// epoch in which it was taken, and no side forgets one. See
// docs/decisions/2026-11-27-moves-are-judged-by-epochs.md.
func movedWhole(j judged) {
	if !j.moving() {
		return
	}
	type counter struct {
		place
		key uint64
	}
	sums, ops := map[counter]int64{}, map[counter][]uint64{}
	at := map[place]map[uint64]Placed{}
	copied, twinned, together, pause := map[counter]bool{}, map[counter]bool{}, false, int64(0)
	for _, p := range j.Placed {
		j.Checked(1)
		where := place{p.Range, p.Map}
		c := counter{where, p.Key}
		if at[where] == nil {
			at[where] = map[uint64]Placed{}
		}
		if _, twice := at[where][p.ID]; twice {
			j.Violate([]uint64{p.ID}, "operation %d is twice in map %d", p.ID, p.Map)
		}
		at[where][p.ID] = p
		if sums[c] += p.Delta; len(ops[c]) < check.MaxProof {
			ops[c] = append(ops[c], p.ID)
		}
		if asked, known := j.truth.asked[p.ID]; !known || asked.delta != p.Delta ||
			asked.key != counterKey(p.Key) {
			j.Violate([]uint64{p.ID}, "operation %d is in map %d with %d to counter %d, and was not sent so",
				p.ID, p.Map, p.Delta, p.Key)
		}
		if p.In > p.Epoch {
			j.Violate([]uint64{p.ID}, "operation %d was taken in epoch %d of range %d, and came to map %d "+
				"when that had begun epoch %d", p.ID, p.Epoch, p.Range, p.Map, p.In)
		}
		copied[c] = copied[c] || p.Came == "copy"
		twinned[c] = twinned[c] || p.Came == "twin" && p.Epoch == 1
		together = together || copied[c] && twinned[c]
	}
	for _, s := range j.Sides {
		j.Checked(1)
		c := counter{place{s.Range, s.Map}, s.Key}
		if sums[c] != s.Value {
			j.Violate(ops[c], "counter %d is %d in map %d, and its adds there are %d (%+d)", s.Key, s.Value,
				s.Map, sums[c], s.Value-sums[c])
		}
		delete(sums, c)
	}
	for c := range sums {
		j.Violate(ops[c], "counter %d has adds in map %d, and is not there", c.key, c.at)
	}
	for _, h := range j.Handovers {
		pause = max(pause, h.Paused)
		source, target := at[place{h.Range, h.Source}], at[place{h.Range, h.Target}]
		for _, side := range []struct {
			has, lacks map[uint64]Placed
			in         int64
		}{{source, target, h.Target}, {target, source, h.Source}} {
			for id, p := range side.has {
				if _, there := side.lacks[id]; !there && p.Epoch < h.Epoch {
					j.Violate([]uint64{id}, "operation %d was taken in epoch %d of range %d, and map %d "+
						"lacked it when epoch %d began", id, p.Epoch, h.Range, side.in, h.Epoch)
				}
			}
		}
	}
	j.Need(together || !slices.ContainsFunc(j.Placed, Placed.twin),
		"no counter was copied while it was written")
	j.Figure("longest time without an owner", "ms", float64(pause))
	j.Figure("changes of owners", "", float64(len(j.Handovers)))
}
