package autocomplete

import (
	"fmt"
	"strings"
	"time"

	"stampede/harness/api"
	"stampede/harness/history"
	"stampede/harness/keys"
	"stampede/harness/sut"
	"stampede/systems/internal/prefix"
)

// Scheduled operation i owns the 16 identities from (i+1)<<4. The first is its search.
const (
	idBits = 4

	typedChars = 5  // identities 1 to 5: a suggestion for so many characters
	mistyped   = 6  // one for a wrong prefix
	blocking   = 7  // its phrase is blocked
	looking    = 8  // suggestions after the search, and from 11 on after the block
	besides    = 10 // one while the phrase is being blocked
	lookAgain  = 11
)

// keystroke is the time between two characters that a user types.
const keystroke = 60 * time.Millisecond

// mistypedAfter is how many searches later what was searched for is mistyped.
const mistypedAfter = 10

// lookLater is when somebody looks for a second time.
const lookLater = 300 * time.Millisecond

// newWorkload makes the operations as a pure function of the seed. Scheduled operations are
// searches; some are typed, with a suggestion for each character.
func newWorkload(s *keys.Streams, p Params) sut.Workload {
	return &workload{p: p, table: API(), words: words(), regular: s.Coin(), typed: s.Coin(),
		wrong: s.Coin(), block: s.Coin(), news: s.Coin(), users: s.Uniform(p.Users),
		regulars: s.Uniform(min(p.Regulars, p.Users)),
		phrases:  s.Skewed(p.Phrases, keys.SkewZipf, 0, 0)}
}

type workload struct {
	p     Params
	table *api.Table[Suggester]
	words []string

	regular, typed, wrong, block, news keys.Coin
	users, regulars, phrases           keys.Source
}

// words are what phrases are made of; many begin alike.
func words() []string {
	return strings.Fields("tea car cart care café chair cheap cheese city coffee cook country dark " +
		"dinner dress east easy fast film flight flower food garden green hotel house island jacket " +
		"kitchen köln lamp london Tea Cart")
}

// phrase is the text of a phrase: its number, with words as digits.
func (w *workload) phrase(n uint64) string {
	base := uint64(len(w.words))
	text := w.words[n%base]
	for n /= base; n > 0; n /= base {
		text += " " + w.words[n%base]
	}
	return text
}

// Kinds lists the operation kinds, the main one first.
func (w *workload) Kinds() []string { return []string{KindSuggest, KindQuery, KindBlock} }

// Op returns scheduled operation i: a search, or the first suggestion before one.
func (w *workload) Op(i uint64) history.Op {
	switch {
	case w.typed.At(i) < w.p.Typed:
		return w.suggest(i, 1, w.user(i), firstOf(w.text(i), 1))
	case w.wrong.At(i) < w.p.Mistyped:
		return w.mistype(i)
	}
	return w.query(i)
}

func (w *workload) user(i uint64) uint64 {
	if w.regular.At(i) < w.p.RegularShare {
		return w.regulars.At(i) + 1
	}
	return w.users.At(i) + 1
}

// text is what search i is for.
func (w *workload) text(i uint64) string {
	if w.news.At(i) < w.p.News {
		return w.newsOf(i)
	}
	return w.phrase(w.phrases.At(i))
}

// newsOf is the news at search i.
func (w *workload) newsOf(i uint64) string {
	n := i / uint64(w.p.NewsEvery)
	return fmt.Sprintf("%s news %d", w.phrase(n), n)
}

func (w *workload) query(i uint64) history.Op {
	return w.table.Op(KindQuery,
		QueryRequest{ID: (i + 1) << idBits, User: w.user(i), Phrase: w.text(i)})
}

func (w *workload) suggest(i, id, user uint64, typed string) history.Op {
	req := SuggestRequest{ID: (i+1)<<idBits + id, User: user, Prefix: typed, Most: most}
	if id == looking+1 {
		req.Most = 3
	}
	return w.table.Op(KindSuggest, req)
}

// firstOf are the first characters of a text.
func firstOf(text string, n int) string {
	chars := []rune(text)
	return string(chars[:min(n, len(chars))])
}

// mistype is a suggestion for a prefix in which one character is another one, or which also lacks
// one: of what others have searched for a little earlier, or of the news if that is too short.
func (w *workload) mistype(i uint64) history.Op {
	const enough = shortest*(prefix.MaxEdits+1) + 1
	chars := []rune(firstOf(w.text(i-min(i, mistypedAfter)), enough))
	if len(chars) < 2*shortest {
		chars = []rune(firstOf(w.newsOf(i), enough))
	}
	req := SuggestRequest{ID: (i+1)<<idBits + mistyped, User: w.user(i), Most: most}
	n := len(chars)
	chars[int(i)%n], req.Edits = 'x', 1
	if at := int(i/3) % n; n == enough && i%2 == 0 {
		chars, req.Edits = append(chars[:at], chars[at+1:]...), prefix.MaxEdits
	}
	req.Prefix = string(chars)
	return w.table.Op(KindSuggest, req)
}

// Follow returns what an operation brings about.
func (w *workload) Follow(
	op history.Op, outcome history.Outcome, _ history.Reply,
) (list []sut.FollowUp) {
	i, n := op.ID>>idBits-1, op.ID&(1<<idBits-1)
	add := func(after time.Duration, op history.Op) {
		list = append(list, sut.FollowUp{After: after, Op: op})
	}
	next := func(after time.Duration, id, user uint64, chars int) {
		add(after, w.suggest(i, id, user, firstOf(w.text(i), chars)))
	}
	const whole = 100 // characters, which no phrase has
	switch {
	case n >= 1 && n < typedChars:
		next(keystroke, n+1, w.user(i), int(n)+1)
		if n == typedChars-1 { // and presses return before the answer is there
			add(keystroke, w.query(i))
		}
	case n == mistyped:
		add(keystroke, w.query(i))
	case n == 0 && outcome == history.OK:
		next(0, looking, w.user(i), 3)
		next(lookLater, looking+1, w.user(i), 2)
		if w.block.At(i) < w.p.Blocks {
			add(0, w.table.Op(KindBlock,
				BlockRequest{ID: op.ID + blocking, Phrase: w.text(i)}))
			next(0, besides, w.user(i), whole)
		}
	case n == blocking:
		next(0, lookAgain, w.user(i), whole)
		next(keystroke, lookAgain+1, 0, whole)
		next(lookLater, lookAgain+2, 0, 2)
	}
	return list
}
