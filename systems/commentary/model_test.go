package commentary_test

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"stampede/harness/api"
	"stampede/harness/history"
	"stampede/harness/sut"
	"stampede/harness/suttest"
	"stampede/systems/commentary"
)

const ms = time.Millisecond

type evidence = suttest.Evidence[commentary.Params, commentary.Audit]

// board is the smallest correct service: a blackboard for each match, with all that was said, and
// the list of what was written on it.
type board struct {
	api     *api.Table[commentary.Commentary]
	matches map[uint64][]commentary.ChangeRow
}

func newBoard(*suttest.World, *commentary.Params) *board {
	return &board{commentary.API(), map[uint64][]commentary.ChangeRow{}}
}

// Do performs an operation.
func (b *board) Do(op history.Op, answer func(history.Reply, error)) {
	answer(b.api.Do(context.Background(), b, op))
}

// Publish writes a comment.
func (b *board) Publish(
	_ context.Context, req commentary.PublishRequest,
) (commentary.Published, error) {
	return b.write(commentary.ChangeRow{ID: req.ID, Match: req.Match, Ball: req.Ball, Text: req.Text})
}

// Correct writes a correction.
func (b *board) Correct(
	_ context.Context, req commentary.CorrectRequest,
) (commentary.Published, error) {
	for _, c := range b.matches[req.Match] {
		if c.Version == req.Comment && c.Comment == req.Comment {
			return b.write(commentary.ChangeRow{ID: req.ID, Match: req.Match, Comment: req.Comment,
				Ball: c.Ball, Text: req.Text})
		}
	}
	return commentary.Published{}, commentary.ErrNoComment
}

func (b *board) write(c commentary.ChangeRow) (commentary.Published, error) {
	for _, is := range b.matches[c.Match] {
		if is.ID == c.ID {
			return commentary.Published{Version: is.Version}, nil
		}
	}
	c.Version = int64(len(b.matches[c.Match])) + 1
	c.Comment = cmp.Or(c.Comment, c.Version)
	b.matches[c.Match] = append(b.matches[c.Match], c)
	return commentary.Published{Version: c.Version}, nil
}

// comments wipes the board and writes everything again: the oldest ends up below.
func (b *board) comments(match uint64) []commentary.Comment {
	list := []commentary.Comment{}
	for _, c := range b.matches[match] {
		now := commentary.Comment{ID: c.Comment, Version: c.Version, Ball: c.Ball, Text: c.Text}
		i := slices.IndexFunc(list, func(is commentary.Comment) bool { return is.ID == c.Comment })
		if i < 0 {
			list = slices.Insert(list, 0, now)
		} else {
			list[i] = now
		}
	}
	return list
}

// Latest shows the newest thirty, and names what it shows by what was written.
func (b *board) Latest(_ context.Context, req commentary.LatestRequest) (commentary.Latest, error) {
	l := commentary.Latest{Version: int64(len(b.matches[req.Match])), NextPoll: 500,
		Comments: []commentary.Comment{}}
	l.ETag = fmt.Sprintf("%q", fmt.Sprint(l.Version))
	if l.ETag == req.Have {
		return commentary.Latest{ETag: l.ETag, Unchanged: true}, nil
	}
	all := b.comments(req.Match)
	for _, c := range all[:min(30, len(all))] {
		if c.Version > req.Since {
			l.Comments = append(l.Comments, c)
		}
	}
	return l, nil
}

// Past shows what is older.
func (b *board) Past(_ context.Context, req commentary.PastRequest) (commentary.Past, error) {
	p := commentary.Past{Version: int64(len(b.matches[req.Match])), Comments: []commentary.Comment{}}
	for _, c := range b.comments(req.Match) {
		if c.ID < req.Before && len(p.Comments) < req.Most {
			p.Comments = append(p.Comments, c)
		}
	}
	return p, nil
}

// Audit copies the board.
func (b *board) Audit() commentary.Audit {
	a := commentary.Audit{Changes: []commentary.ChangeRow{}, Pages: []commentary.PageRow{},
		Past: []commentary.PageRow{}}
	for match, list := range b.matches {
		all := b.comments(match)
		a.Changes = append(a.Changes, list...)
		row := commentary.PageRow{Match: match, Version: int64(len(list)), Comments: all}
		a.Past = append(a.Past, row)
		row.Comments = all[:min(30, len(all))]
		a.Pages = append(a.Pages, row)
	}
	byMatch := func(x, y commentary.PageRow) int { return cmp.Compare(x.Match, y.Match) }
	slices.SortFunc(a.Pages, byMatch)
	slices.SortFunc(a.Past, byMatch)
	slices.SortFunc(a.Changes, func(x, y commentary.ChangeRow) int {
		return cmp.Or(cmp.Compare(x.Match, y.Match), cmp.Compare(x.Version, y.Version))
	})
	return a
}

// crowd is of ordinary size.
func crowd() *commentary.Params {
	p := commentary.DefaultParams()
	p.Matches, p.Publishes, p.Corrects, p.Polls, p.Pasts = 2, 0.3, 0.3, 3, 0.3
	p.PollEvery = sut.Duration(50 * ms)
	return &p
}

// anyCrowd is one of any kind.
func anyCrowd(d suttest.Draw) *commentary.Params {
	p := crowd()
	p.Matches = d.Int("matches", 1, 10)
	p.Polls = d.Int("polls", 0, 6)
	p.HotShare, p.Publishes = d.Share("hot_share"), d.Share("publishes")
	p.Corrects, p.Apps, p.Pasts = d.Share("corrects"), d.Share("apps"), d.Share("pasts")
	return p
}
