package suttest

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"stampede/harness/check"
	"stampede/harness/history"
	"stampede/harness/sut"
)

// TB is what testing.T and rapid.T have in common.
type TB interface {
	Helper()
	Fatal(args ...any)
	Fatalf(format string, args ...any)
}

// Proof is what a system brings so that its judges are proved: neither do they cry wolf, nor
// are they blind. E is the evidence that they see, which a case may change.
type Proof[E any] struct {
	// Invariants are the names of those that are proved.
	Invariants []string
	// Any draws any run of a correct system, with any trouble; Some one of ordinary size with
	// a little of it.
	Any, Some func(*rapid.T) E
	// Whole is a run without trouble that decides every invariant, whatever the seed.
	Whole func(t TB, seed uint64) E
	// Judge returns the verdicts by name.
	Judge func(e E, t TB) map[string]check.Verdict
	// Judged, unless it is nil, is shown every verdict of Clauses.
	Judged func(t *testing.T, c Case[E], v check.Verdict)
	// Parts are what clients saw and a pointer to the audit, which Prove corrupts blindly.
	Parts func(E) (records []history.Record, audit any)
	// Unnoticed lists by reason the blind corruptions that no invariant can notice: a field of
	// an audit that no invariant reads is of no use.
	Unnoticed map[string][]string
	// Absent lists by reason the blind corruptions that no run has anything for.
	Absent map[string][]string
}

// Draw draws parameters.
type Draw struct{ t *rapid.T }

// Share is a part of 1.
func (d Draw) Share(name string) float64 { return rapid.Float64Range(0, 1).Draw(d.t, name) }

// Int is a number from least to most.
func (d Draw) Int(name string, least, most int) int {
	return rapid.IntRange(least, most).Draw(d.t, name)
}

// Millis is a duration of so many milliseconds.
func (d Draw) Millis(name string, least, most int) sut.Duration {
	return sut.Duration(time.Duration(d.Int(name, least, most)) * time.Millisecond)
}

// Correct is a correct model that keeps what an audit reads once nothing is left to happen.
type Correct[A any] interface {
	Model
	Audit() A
}

// played is an Evidence, or a struct that embeds one.
type played[P, A any] interface {
	base() *Evidence[P, A]
	Judge(t TB) map[string]check.Verdict
	Parts() ([]history.Record, any)
}

// Played completes a proof with runs of a correct model, and with the invariants of its system. A
// run offers ops operations over a time, with parameters that ordinary makes or drawn draws. model
// makes the model, in a world in which nothing has happened yet. A run may have a fault: a time in
// which most attempts meet trouble.
func Played[V, P, A any, M Correct[A], E interface {
	*V
	played[P, A]
}](
	p Proof[E], system sut.System, ordinary func() *P, drawn func(Draw) *P,
	ops int, over time.Duration, model func(*World, *P) M,
) Proof[E] {
	run := func(t TB, seed uint64, params *P, trouble Trouble, fault bool) E {
		t.Helper()
		w := NewWorld(t, system, seed, params, trouble)
		if fault {
			w.loseAnswers()
		}
		m := model(w, params)
		w.Run(m, ops, over)
		e := E(new(V))
		*e.base() = Evidence[P, A]{System: system, P: params, Records: w.Records,
			Windows: w.Windows, Samples: w.Samples, Audit: m.Audit()}
		return e
	}
	seed := func(t *rapid.T) uint64 { return rapid.Uint64().Draw(t, "seed") }
	p.Any = func(t *rapid.T) E {
		return run(t, seed(t), drawn(Draw{t}), DrawTrouble(t), rapid.Bool().Draw(t, "fault"))
	}
	p.Some = func(t *rapid.T) E {
		return run(t, seed(t), ordinary(), Trouble{LostRequest: 0.01, LostReply: 0.01, Late: 0.01,
			Hang: 0.01, Dropped: 0.01}, false)
	}
	p.Whole = func(t TB, seed uint64) E { return run(t, seed, ordinary(), Trouble{}, false) }
	p.Judge = func(e E, t TB) map[string]check.Verdict { return e.Judge(t) }
	p.Parts = func(e E) ([]history.Record, any) { return e.Parts() }
	for _, v := range system.Invariants(ordinary()) {
		p.Invariants = append(p.Invariants, v.Name())
	}
	return p
}

// corruption is Corruption, and every type that a system makes of it.
type corruption[E any] interface {
	~struct {
		Name, Breaks string
		Do           func(e E, pick func(n int) int) bool
	}
}

// Corruption is one thing that a correct system never does. A system that makes a type of its
// own of it (type corruption suttest.Corruption[*evidence]) may leave out the fields' names.
type Corruption[E any] struct {
	Name, Breaks string
	// Do changes the evidence; pick draws one of so many. It returns false if the run has
	// nothing to change.
	Do func(e E, pick func(n int) int) bool
}

// Share returns as many of n cases as rapid's checks are of a hundred, one at least: RAPID_CHECKS
// shortens a whole proof, and so does -short.
func Share(n int) int {
	checks := flag.Lookup("rapid.checks").Value.(flag.Getter).Get().(int)
	if testing.Short() {
		checks /= 5
	}
	return max(1, min(n, n*checks/100))
}

// Prove checks that the judges are sound, that a run without trouble decides all of them, with so
// many seeds, and that each is broken by a corruption, blind or the system's own.
func Prove[E any, C corruption[E]](t *testing.T, p Proof[E], seeds int, corruptions []C) {
	t.Helper()
	t.Run("sound", p.sound)
	t.Run("decided", func(t *testing.T) { p.decides(t, seeds) })
	caught(t, p, corruptions)
}

// sound checks that no run of a correct system is judged broken.
func (p Proof[E]) sound(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		for name, v := range p.Judge(p.Any(t), t) {
			if v.Status == check.Broken {
				t.Fatalf("%s is broken: %+v", name, v.Violations)
			}
		}
	})
}

// decides checks that a run without trouble decides every invariant, with so many seeds.
func (p Proof[E]) decides(t *testing.T, seeds int) {
	for seed := range uint64(Share(seeds)) {
		verdicts := p.Judge(p.Whole(t, seed), t)
		for _, name := range p.Invariants {
			if v := verdicts[name]; v.Status != check.Held {
				t.Errorf("seed %d: %s is %s: %s", seed, name, v.Status, v.Reason)
			}
		}
	}
}

// caught checks that every invariant has a corruption, blind or the system's own, and that each
// is caught, also amid unknown outcomes: one of the system's own in every run.
func caught[E any, C corruption[E]](t *testing.T, p Proof[E], corruptions []C) {
	covered := map[string]bool{}
	p.noticed(t, covered)
	for _, own := range corruptions {
		c := Corruption[E](own)
		covered[c.Breaks] = true
		t.Run(c.Name, func(t *testing.T) {
			done := 0
			rapid.Check(t, func(t *rapid.T) {
				e := p.Some(t)
				if !c.Do(e, func(n int) int { return rapid.IntRange(0, n-1).Draw(t, "which") }) {
					return
				}
				done++
				if v := p.Judge(e, t)[c.Breaks]; v.Status != check.Broken || v.Count == 0 {
					t.Fatalf("%s is %s: %s", c.Breaks, v.Status, v.Reason)
				}
			})
			if done == 0 {
				t.Error("no run had anything to corrupt")
			}
		})
	}
	for _, text := range p.unshown(covered) {
		t.Error(text)
	}
}

// unshown says which invariants nothing has shown to be breakable.
func (p Proof[E]) unshown(broken map[string]bool) (texts []string) {
	for _, name := range p.Invariants {
		if !broken[name] {
			texts = append(texts, "nothing shows that "+name+" can be broken")
		}
	}
	return texts
}

// Case changes one thing of a good run and says what becomes of one invariant: its status, and
// what its reason or one of its violations contains. As of Corruption, a system may make a type
// of its own of it.
type Case[E any] struct {
	Invariant, Name string
	Want            check.Status
	Change          func(E)
	Says            string
}

// Clauses checks that the clauses of the invariants accept what is right and refuse what is
// wrong: what every case makes of a good run, of which all invariants must hold. Each must have a
// case in which it is broken and one in which it is undecided.
func Clauses[E any, C ~struct {
	Invariant, Name string
	Want            check.Status
	Change          func(E)
	Says            string
}](t *testing.T, p Proof[E], good func() E, cases []C) {
	seen := map[string]map[check.Status]bool{}
	for _, name := range p.Invariants {
		seen[name] = map[check.Status]bool{}
	}
	whole := p.Judge(good(), t)
	for _, name := range p.Invariants {
		if v := whole[name]; v.Status != check.Held {
			t.Errorf("of the good run %s is %s: %s", name, v.Status, v.Reason)
		}
	}
	for _, own := range cases {
		c := Case[E](own)
		t.Run(c.Invariant+"/"+c.Name, func(t *testing.T) {
			e := good()
			c.Change(e)
			v := p.Judge(e, t)[c.Invariant]
			if text := c.differs(v); text != "" {
				t.Error(text)
			}
			if p.Judged != nil {
				p.Judged(t, c, v)
			}
		})
		seen[c.Invariant][c.Want] = true
	}
	for _, text := range p.unseen(seen) {
		t.Error(text)
	}
}

// differs says what is wrong with a verdict on the case, "" if nothing is.
func (c Case[E]) differs(v check.Verdict) string {
	text := v.Reason
	for _, violation := range v.Violations {
		text += "\n" + violation.Text
	}
	if v.Status == c.Want && strings.Contains(text, c.Says) {
		return ""
	}
	return fmt.Sprintf("%s: %s\nwant %s: %s", v.Status, text, c.Want, c.Says)
}

// unseen says which invariants lack a case.
func (p Proof[E]) unseen(seen map[string]map[check.Status]bool) (texts []string) {
	for _, name := range p.Invariants {
		for _, status := range []check.Status{check.Broken, check.Undecided} {
			if !seen[name][status] {
				texts = append(texts, fmt.Sprintf("%s has no case that is %s", name, status))
			}
		}
	}
	return texts
}

// Encoded is an audit as JSON.
func Encoded(t TB, audit any) json.RawMessage {
	t.Helper()
	raw, err := json.Marshal(audit)
	if err != nil {
		t.Fatalf("encoding the audit: %v", err)
	}
	return raw
}

// Verdicts judges a history and an audit and returns the verdicts by name.
func Verdicts(
	invariants []check.Invariant, h history.History, audit json.RawMessage,
) map[string]check.Verdict {
	out := map[string]check.Verdict{}
	for _, v := range check.All(context.Background(), invariants, h, audit) {
		out[v.Invariant] = v
	}
	return out
}

// PickFrom is one of those in a list that fit; nil if none does.
func PickFrom[T any](list []T, pick func(n int) int, fits func(*T) bool) *T {
	if i := IndexFrom(list, pick, fits); i >= 0 {
		return &list[i]
	}
	return nil
}

// Change changes one of those in a list that fit; false if none does.
func Change[T any](list []T, pick func(n int) int, fits func(*T) bool, change func(*T)) bool {
	one := PickFrom(list, pick, fits)
	if one != nil {
		change(one)
	}
	return one != nil
}

// IndexFrom is the index of one of those in a list that fit; -1 if none does.
func IndexFrom[T any](list []T, pick func(n int) int, fits func(*T) bool) int {
	var fit []int
	for i := range list {
		if fits(&list[i]) {
			fit = append(fit, i)
		}
	}
	if len(fit) == 0 {
		return -1
	}
	return fit[pick(len(fit))]
}
