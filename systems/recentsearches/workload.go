package recentsearches

import (
	"fmt"
	"strings"
	"time"

	"stampede/harness/api"
	"stampede/harness/history"
	"stampede/harness/keys"
	"stampede/harness/sut"
)

// Scheduled operation i owns the 16 identities from (i+1)<<4. The first is its search.
const idBits = 4

// forgetAfter is when a term is forgotten, while the search may still be on its way to the list.
// Another device of the user searches for the next term at the same time.
const forgetAfter = 5 * time.Millisecond

// newWorkload makes the operations as a pure function of the seed. Scheduled operations are
// searches of some user. Some are followed by looks from several devices, some by a forgetting.
func newWorkload(s *keys.Streams, p Params) sut.Workload {
	return &workload{p: p, table: API(), regular: s.Coin(), read: s.Coin(), forget: s.Coin(),
		login: s.Coin(), history: s.Coin(), users: s.Uniform(p.Users),
		regulars: s.Uniform(min(p.Regulars, p.Users)), terms: s.Uniform(p.Terms)}
}

type workload struct {
	p     Params
	table *api.Table[Recents]

	regular, read, forget, login, history keys.Coin
	users, regulars, terms                keys.Source
}

// Kinds lists the operation kinds, the main one first.
func (w *workload) Kinds() []string {
	return []string{KindSearch, KindRecent, KindForget, KindLogin, KindHistory}
}

// Op returns scheduled operation i: a search, or the login before one, which then follows.
func (w *workload) Op(i uint64) history.Op {
	if w.login.At(i) < w.p.Logins {
		return w.table.Op(KindLogin, LoginRequest{ID: (i+1)<<idBits + 1, User: w.user(i)})
	}
	return w.search(i)
}

func (w *workload) search(i uint64) history.Op {
	return w.table.Op(KindSearch,
		SearchRequest{ID: (i + 1) << idBits, User: w.user(i), Term: w.term(i)})
}

func (w *workload) user(i uint64) uint64 {
	if w.regular.At(i) < w.p.RegularShare {
		return w.regulars.At(i) + 1
	}
	return w.users.At(i) + 1
}

// term is what search i is for. Some differ from another one in a single letter, or in its case, or
// in a blank.
func (w *workload) term(i uint64) string {
	n := w.terms.At(i)
	switch text := fmt.Sprint("term ", n-n%8); n % 8 {
	case 1:
		return strings.ToUpper(text)
	case 2:
		return strings.Replace(text, "e", "ë", 1)
	case 3:
		return text + " "
	case 4:
		return text + strings.Repeat(".", longest-len(text))
	}
	return fmt.Sprint("term ", n)
}

// longest is how many bytes a term may have.
const longest = 100

// devices says when some devices look, after a search. The last of them does so after it should be
// in the list.
func (w *workload) devices() []time.Duration {
	return []time.Duration{0, 10 * time.Millisecond, 300 * time.Millisecond,
		w.p.VisibleWithin.D() + time.Second}
}

// Follow returns what an operation brings about.
func (w *workload) Follow(
	op history.Op, outcome history.Outcome, _ history.Reply,
) (list []sut.FollowUp) {
	i := op.ID>>idBits - 1
	id, user := (i+1)<<idBits+1, w.user(i)
	add := func(after time.Duration, next func(id uint64) history.Op) {
		id++
		list = append(list, sut.FollowUp{After: after, Op: next(id)})
	}
	switch op.Kind {
	case KindLogin:
		return []sut.FollowUp{{Op: w.search(i)}}
	case KindSearch, KindForget:
	default:
		return nil
	}
	if op.ID != (i+1)<<idBits { // not the first one
		id += 4 * (op.ID & (1<<idBits - 1))
		if op.Kind == KindSearch {
			return nil
		}
	} else if w.forget.At(i) < w.p.Forgets {
		add(forgetAfter, func(id uint64) history.Op {
			return w.table.Op(KindForget, ForgetRequest{ID: id, User: user, Term: w.term(i)})
		})
		add(forgetAfter, func(id uint64) history.Op {
			return w.table.Op(KindSearch, SearchRequest{ID: id, User: user, Term: w.term(i + 1)})
		})
	}
	if outcome != history.Refused && w.read.At(i) < w.p.Reads {
		for _, after := range w.devices() {
			add(after, func(id uint64) history.Op {
				return w.table.Op(KindRecent, UserRequest{ID: id, User: user})
			})
		}
	}
	if w.history.At(i) < w.p.Histories {
		most := [2]int{3, 1000}[i%2] // of which the second reaches into the archive
		add(0, func(id uint64) history.Op {
			return w.table.Op(KindHistory, HistoryRequest{ID: id, User: user, Most: most})
		})
	}
	return list
}
