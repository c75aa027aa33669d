package recentsearches_test

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"time"

	"stampede/harness/api"
	"stampede/harness/history"
	"stampede/harness/suttest"
	"stampede/systems/recentsearches"
)

const ms = time.Millisecond

type evidence = suttest.Evidence[recentsearches.Params, recentsearches.Audit]

// book is the smallest correct service: a page for each user, with all that the user did.
type book struct {
	api   *api.Table[recentsearches.Recents]
	pages map[uint64][]recentsearches.ChangeRow
}

func newBook(*suttest.World, *recentsearches.Params) *book {
	return &book{recentsearches.API(), map[uint64][]recentsearches.ChangeRow{}}
}

// Do performs an operation.
func (b *book) Do(op history.Op, answer func(history.Reply, error)) {
	answer(b.api.Do(context.Background(), b, op))
}

func (b *book) add(c recentsearches.ChangeRow) (recentsearches.Kept, error) {
	for _, is := range b.pages[c.User] {
		if is.ID == c.ID {
			return recentsearches.Kept{Version: is.Version}, nil
		}
	}
	c.Version = int64(len(b.pages[c.User])) + 1
	b.pages[c.User] = append(b.pages[c.User], c)
	return recentsearches.Kept{Version: c.Version}, nil
}

// Search writes a search down.
func (b *book) Search(
	_ context.Context, req recentsearches.SearchRequest,
) (recentsearches.Kept, error) {
	return b.add(recentsearches.ChangeRow{ID: req.ID, User: req.User, Term: req.Term})
}

// Forget writes a forgetting down.
func (b *book) Forget(
	_ context.Context, req recentsearches.ForgetRequest,
) (recentsearches.Kept, error) {
	return b.add(recentsearches.ChangeRow{ID: req.ID, User: req.User, Term: req.Term, Forgotten: true})
}

// list reads a page from its end: a term counts as what was last done to it, if at most nine others
// were searched for since.
func (b *book) list(user uint64) recentsearches.List {
	page := b.pages[user]
	l := recentsearches.List{Version: int64(len(page)), Terms: []string{}}
	for _, c := range page {
		l.Terms = slices.DeleteFunc(l.Terms, func(term string) bool { return term == c.Term })
		if !c.Forgotten {
			l.Terms = slices.Insert(l.Terms, 0, c.Term)
		}
		l.Terms = l.Terms[:min(10, len(l.Terms))]
	}
	return l
}

// Recent reads a list.
func (b *book) Recent(
	_ context.Context, req recentsearches.UserRequest,
) (recentsearches.List, error) {
	return b.list(req.User), nil
}

// Login reads a list.
func (b *book) Login(
	_ context.Context, req recentsearches.LoginRequest,
) (recentsearches.List, error) {
	return b.list(req.User), nil
}

// History reads a page.
func (b *book) History(
	_ context.Context, req recentsearches.HistoryRequest,
) (recentsearches.History, error) {
	h := recentsearches.History{Changes: []recentsearches.Change{}}
	for _, c := range slices.Backward(b.pages[req.User]) {
		if h.Found < req.Most {
			h.Found++
			h.Changes = append(h.Changes,
				recentsearches.Change{Version: c.Version, Term: c.Term, Forgotten: c.Forgotten})
		}
	}
	return h, nil
}

// Audit copies the book.
func (b *book) Audit() recentsearches.Audit {
	a := recentsearches.Audit{Changes: []recentsearches.ChangeRow{},
		Lists: []recentsearches.ListRow{}}
	for user, page := range b.pages {
		l := b.list(user)
		a.Changes = append(a.Changes, page...)
		a.Lists = append(a.Lists, recentsearches.ListRow{User: user, Version: l.Version, Terms: l.Terms})
	}
	counts := map[string]int64{}
	for _, c := range a.Changes {
		if !c.Forgotten {
			counts[c.Term]++
		}
	}
	for _, term := range slices.Sorted(maps.Keys(counts)) {
		a.Counts = append(a.Counts, recentsearches.CountRow{Term: term, Searches: counts[term]})
	}
	slices.SortFunc(a.Changes, func(x, y recentsearches.ChangeRow) int {
		return cmp.Or(cmp.Compare(x.User, y.User), cmp.Compare(x.Version, y.Version))
	})
	a.Log = slices.Clone(a.Changes)
	slices.SortFunc(a.Lists, func(x, y recentsearches.ListRow) int {
		return cmp.Compare(x.User, y.User)
	})
	return a
}

// crowd is of ordinary size.
func crowd() *recentsearches.Params {
	p := recentsearches.DefaultParams()
	p.Users, p.Regulars, p.Forgets, p.Histories = 300, 10, 0.2, 0.2
	return &p
}

// anyCrowd is one of any kind.
func anyCrowd(d suttest.Draw) *recentsearches.Params {
	p := crowd()
	p.Users = d.Int("users", 2, 30)
	p.Regulars = d.Int("regulars", 1, 5)
	p.Terms = d.Int("terms", 1, 30)
	p.Reads, p.Forgets, p.Logins = d.Share("reads"), d.Share("forgets"), d.Share("logins")
	p.Histories = d.Share("histories")
	return p
}
