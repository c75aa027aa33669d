package autocomplete_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"testing"
	"time"

	"stampede/harness/check"
	"stampede/harness/history"
	"stampede/harness/suttest"
	"stampede/systems/autocomplete"
)

// proof is what the judges of autocomplete are proved by.
func proof() suttest.Proof[*evidence] {
	return suttest.Played(suttest.Proof[*evidence]{
		Unnoticed: map[string][]string{
			"no operation has a client": {"change client of query", "change client of suggest",
				"change client of block"},
			"a read may be refused":                     {"deny suggest"},
			"any promise within the bounds may be made": {"raise visible_within_ms in answers to query"},
		},
		Absent: map[string][]string{
			"none is refused": {"invent query", "invent suggest", "invent block"},
			"an answer to a block says nothing, and lists are of one version": {
				"exchange answers to block", "exchange version of lists"},
		},
	},
		autocomplete.System(), crowd, anyCrowd, 150, 2*time.Second, bookIn)
}

// TestJudges: the judges are sound, a smoke run decides all of them, and none is vacuous.
func TestJudges(t *testing.T) {
	suttest.Prove(t, proof(), 50, []suttest.Corruption[*evidence]{
		{Name: "two are in the wrong order", Breaks: autocomplete.TopOfVersion,
			Do: func(e *evidence, pick func(int) int) bool {
				return changeShown(e, pick, 2, func(s *autocomplete.Suggestions) {
					s.Phrases[0], s.Phrases[1] = s.Phrases[1], s.Phrases[0]
				})
			}},
		{Name: "a score is another one", Breaks: autocomplete.TopOfVersion,
			Do: func(e *evidence, pick func(int) int) bool {
				return changeShown(e, pick, 1, func(s *autocomplete.Suggestions) { s.Phrases[0].Score++ })
			}},
		{Name: "something else is suggested", Breaks: autocomplete.AsTyped,
			Do: func(e *evidence, pick func(int) int) bool {
				return changeShown(e, pick, 1, func(s *autocomplete.Suggestions) {
					s.Phrases[0].Phrase = "zebra crossing"
				})
			}},
	})
}

// changeShown changes suggestions, of which there are at least some.
func changeShown(
	e *evidence, pick func(int) int, least int, change func(*autocomplete.Suggestions),
) bool {
	of := func(r *history.Record) (s autocomplete.Suggestions, ok bool) {
		ok = r.Op.Kind == autocomplete.KindSuggest && r.Outcome == history.OK &&
			json.Unmarshal(r.Reply.Body, &s) == nil && len(s.Phrases) >= least
		return s, ok
	}
	return suttest.Change(e.Records, pick, func(r *history.Record) bool {
		_, ok := of(r)
		return ok
	}, func(rec *history.Record) {
		s, _ := of(rec)
		change(&s)
		rec.Reply.Body, _ = json.Marshal(s)
	})
}

// smallRun is a run that every invariant accepts. Users 1 and 2 search for what begins with t,
// and look at suggestions; then tiger is blocked.
func smallRun() *evidence {
	p := crowd()
	p.Least = 2
	e := &evidence{System: autocomplete.System(), P: p}
	at := func() time.Duration { return 10 * ms * time.Duration(1+len(e.Records)) }
	b := newBook(*p, at)
	do := func(kind string, request any) {
		op := b.api.Op(kind, request)
		b.Do(op, func(reply history.Reply, _ error) {
			start := at()
			e.Records = append(e.Records, history.Record{Seq: uint64(len(e.Records)), Op: op,
				Reply: reply, Outcome: history.OK, Intended: start, Start: start, End: start + 5*ms})
		})
	}
	search := func(id, user uint64, phrase string) {
		do(autocomplete.KindQuery, autocomplete.QueryRequest{ID: id, User: user, Phrase: phrase})
	}
	look := func(id, user uint64, prefix string, edits int) {
		do(autocomplete.KindSuggest, autocomplete.SuggestRequest{ID: id, User: user, Prefix: prefix,
			Edits: edits, Most: 10})
	}
	search(16, 1, "tea time") // record 0
	search(32, 2, "tiger")
	search(48, 2, "tiger")
	look(64, 1, "t", 0)       // 3: tea time, which is user 1's own, and tiger
	look(80, 0, "tee tim", 1) // 4: tea time
	do(autocomplete.KindBlock, autocomplete.BlockRequest{ID: 96, Phrase: "tiger"})
	look(112, 2, "ti", 0) // 6: nothing
	search(128, 1, "top")
	look(144, 0, "t", 0) // 8: tea time and top
	e.Audit = b.Audit()
	return e
}

type clause suttest.Case[*evidence]

// TestClauses: each clause accepts what is right and refuses what is wrong.
func TestClauses(t *testing.T) {
	reply := func(record int, text string) func(*evidence) {
		return func(e *evidence) { e.Records[record].Reply.Body = []byte(text) }
	}
	// Position 3 is acknowledged as counted within 10 ms, and record 8, a look, is of version 2.
	late := func(e *evidence) {
		e.Records[2].Reply.Body = []byte(`{"position":3,"visible_within_ms":10}`)
		e.Records[3].Reply.Body = []byte(`{"version":2,"phrases":[]}`)
		e.Records[3].Start, e.Records[3].End = 900*ms, 901*ms
		e.Records = e.Records[:4]
	}
	fault := func(e *evidence) {
		e.Windows = []history.Window{{Kind: history.FaultWindow, Name: "away", Start: 40 * ms,
			End: 200 * ms, Recovered: 300 * ms, Fault: "kill redis", Evidence: []string{"it was off"}}}
	}
	without := func(kind string) func(*evidence) {
		return func(e *evidence) {
			e.Records = slices.DeleteFunc(e.Records, func(r history.Record) bool {
				return r.Op.Kind == kind
			})
		}
	}
	const tea = `{"phrase":"tea time","score":4,"trending":false,"personal":true}`
	const tiger = `{"phrase":"tiger","score":8,"trending":true,"personal":false}`
	suttest.Clauses(t, proof(), smallRun, []clause{
		{autocomplete.AckedLogged, "one is missing", check.Broken, func(e *evidence) {
			e.Audit.Log = e.Audit.Log[1:]
		}, "was acknowledged"},
		{autocomplete.AckedLogged, "one is there twice", check.Broken, func(e *evidence) {
			row := e.Audit.Log[0]
			row.Position = 9
			e.Audit.Log = append(e.Audit.Log, row)
		}, "operation 16"},
		{autocomplete.AckedLogged, "nobody asked", check.Broken, func(e *evidence) {
			e.Audit.Log[2].ID = 999
		}, "999"},
		{autocomplete.AckedLogged, "two have one position", check.Broken, func(e *evidence) {
			e.Audit.Log[1].Position = 1
		}, "1"},
		{autocomplete.AckedLogged, "another phrase", check.Broken, func(e *evidence) {
			e.Audit.Log[1].Phrase = "lion"
		}, `"tiger" was searched for, and "lion"`},
		{autocomplete.AckedLogged, "a lower position", check.Broken, func(e *evidence) {
			reply(1, `{"position":3,"visible_within_ms":0}`)(e)
			reply(2, `{"position":2,"visible_within_ms":0}`)(e)
		}, "has version 2"},
		{autocomplete.AckedLogged, "a lower slot", check.Broken, func(e *evidence) {
			e.Audit.Log[0].Slot = 9
		}, "at position 2 the log is in slot 0"},
		{autocomplete.AckedLogged, "slots that stand still", check.Broken, func(e *evidence) {
			e.Records[7].Start, e.Records[7].End = time.Minute, time.Minute+ms
			for i := range e.Audit.Log {
				e.Audit.Log[i].Slot = 0
			}
		}, "a slot is 100ms"},
		{autocomplete.AckedLogged, "slots that run", check.Broken, func(e *evidence) {
			e.Audit.Log[3].Slot = 1000
		}, "a slot is 100ms"},
		{autocomplete.AckedLogged, "both at once", check.Held, func(e *evidence) {
			reply(1, `{"position":3,"visible_within_ms":0}`)(e)
			reply(2, `{"position":2,"visible_within_ms":0}`)(e)
			e.Records[1].Reply.Value, e.Records[2].Reply.Value = 3, 2
			e.Audit.Log[1].Position, e.Audit.Log[2].Position = 3, 2
			e.Records[1].End = e.Records[2].Start
		}, ""},
		{autocomplete.AckedLogged, "another position than was said", check.Broken,
			reply(7, `{"position":5,"visible_within_ms":0}`), "was given the position 5, and is at 4"},
		{autocomplete.AckedLogged, "at a position that nobody was told", check.Held, func(e *evidence) {
			e.Records[7].Outcome, e.Records[7].Reply = history.Unknown, history.Reply{}
		}, ""},
		{autocomplete.AckedLogged, "a promise that is never due", check.Broken,
			reply(7, `{"position":4,"visible_within_ms":60001}`), "expected 0 to 60000, got 60001"},
		{autocomplete.AckedLogged, "an answer that is none", check.Broken, reply(0, "["),
			"cannot be read"},
		{autocomplete.AckedLogged, "no log", check.Undecided,
			func(e *evidence) { e.Audit.Log = nil }, "no log"},

		{autocomplete.AsTyped, "of another prefix", check.Broken,
			reply(8, `{"version":4,"phrases":[{"phrase":"lion","score":4}]}`), `"lion" was suggested for "t"`},
		{autocomplete.AsTyped, "two characters are wrong", check.Broken,
			reply(4, `{"version":3,"phrases":[{"phrase":"tan time","score":4}]}`), "with 1 characters wrong"},
		{autocomplete.AsTyped, "twice", check.Broken,
			reply(3, `{"version":3,"phrases":[`+tea+`,`+tea+`]}`), "twice"},
		{autocomplete.AsTyped, "too many", check.Broken, func(e *evidence) {
			e.Records[3].Op = autocomplete.API().Op(autocomplete.KindSuggest,
				autocomplete.SuggestRequest{ID: 64, User: 1, Prefix: "t", Most: 1})
		}, "2 suggestions came, and 1 were"},
		{autocomplete.AsTyped, "an answer that is none", check.Broken, reply(3, "["), "cannot be read"},
		{autocomplete.AsTyped, "nobody mistyped", check.Undecided, func(e *evidence) {
			e.Records = slices.Delete(e.Records, 4, 5)
		}, "that was wrong"},

		{autocomplete.NeverBlocked, "it is still there", check.Broken,
			reply(6, `{"version":3,"phrases":[`+tiger+`]}`), "its block was acknowledged at 65ms"},
		{autocomplete.NeverBlocked, "a look that began before", check.Held, func(e *evidence) {
			reply(6, `{"version":3,"phrases":[`+tiger+`]}`)(e)
			e.Records[6].Start = e.Records[5].End
		}, ""},
		{autocomplete.NeverBlocked, "the block is lost", check.Broken, func(e *evidence) {
			e.Audit.Blocked = e.Audit.Blocked[:0]
		}, "was acknowledged"},
		{autocomplete.NeverBlocked, "it is kept twice", check.Broken, func(e *evidence) {
			e.Audit.Blocked = append(e.Audit.Blocked, e.Audit.Blocked[0])
		}, "operation 96"},
		{autocomplete.NeverBlocked, "nobody asked for it", check.Broken, func(e *evidence) {
			e.Audit.Blocked = append(e.Audit.Blocked, autocomplete.BlockRow{ID: 999, Phrase: "tea"})
		}, "999"},
		{autocomplete.NeverBlocked, "in the end it is back", check.Broken, func(e *evidence) {
			e.Audit.Lists[0].Phrases[0].Phrase = "tiger"
		}, "in the end, and is blocked"},
		{autocomplete.NeverBlocked, "nobody typed it", check.Undecided, func(e *evidence) {
			e.Records = e.Records[:6]
		}, "nobody typed"},

		{autocomplete.TopOfVersion, "an older version, as it was", check.Held,
			reply(8, `{"version":1,"phrases":[{"phrase":"tea time","score":4}]}`), ""},
		{autocomplete.TopOfVersion, "one is missing", check.Broken,
			reply(3, `{"version":3,"phrases":[`+tea+`]}`), `"tiger" with a score of 8, trending is missing`},
		{autocomplete.TopOfVersion, "one is too many", check.Broken,
			reply(3, `{"version":1,"phrases":[`+tea+`,`+tiger+`]}`), "nothing should be there"},
		{autocomplete.TopOfVersion, "own ones come later", check.Broken,
			reply(3, `{"version":3,"phrases":[`+tiger+`,`+tea+`]}`), "number 1 is"},
		{autocomplete.TopOfVersion, "a score is older", check.Broken, reply(8,
			`{"version":4,"phrases":[{"phrase":"tea time","score":3},{"phrase":"top","score":4}]}`),
			"number 1 is"},
		{autocomplete.TopOfVersion, "equal ones in another order", check.Broken, reply(8,
			`{"version":4,"phrases":[{"phrase":"top","score":4},{"phrase":"tea time","score":4}]}`),
			"number 1 is"},
		{autocomplete.TopOfVersion, "nothing is trending", check.Broken,
			reply(3, `{"version":3,"phrases":[`+tea+`,{"phrase":"tiger","score":8}]}`), "number 2 is"},
		{autocomplete.TopOfVersion, "what is being blocked may be there", check.Held, func(e *evidence) {
			reply(6, `{"version":3,"phrases":[{"phrase":"tiger","score":8,"trending":true,"personal":true}]}`)(e)
		}, ""},
		{autocomplete.TopOfVersion, "of no position", check.Broken, reply(3, `{"version":7,"phrases":[]}`),
			"no such position"},
		{autocomplete.TopOfVersion, "before it was asked for", check.Broken, func(e *evidence) {
			e.Records[2].Start, e.Records[2].End = 80*ms, 85*ms
		}, "before that was asked for"},
		{autocomplete.TopOfVersion, "nobody has own ones", check.Undecided, func(e *evidence) {
			e.Records = slices.Delete(e.Records, 3, 4)
		}, "own"},

		{autocomplete.CountedInTime, "later than promised", check.Broken, late,
			"to be visible within 10ms"},
		{autocomplete.CountedInTime, "a look before it was due", check.Held, func(e *evidence) {
			reply(7, `{"position":4,"visible_within_ms":1000}`)(e)
			reply(8, `{"version":3,"phrases":[]}`)(e)
		}, ""},
		{autocomplete.CountedInTime, "later than promised after a fault", check.Held, func(e *evidence) {
			late(e)
			fault(e)
		}, ""},
		{autocomplete.CountedInTime, "later than promised long after a fault", check.Broken,
			func(e *evidence) {
				late(e)
				fault(e)
				e.Records[3].Start, e.Records[3].End = time.Minute, time.Minute+ms
			}, "to be visible within 10ms"},
		{autocomplete.CountedInTime, "later than is granted, whatever is promised", check.Broken,
			func(e *evidence) {
				late(e)
				e.Records[2].Reply.Body = []byte(`{"position":3,"visible_within_ms":60000}`)
				e.Records[3].Start, e.Records[3].End = 4*time.Second, 4*time.Second+ms
			}, "to be visible within 2s"},
		{autocomplete.CountedInTime, "sooner than is granted", check.Held, func(e *evidence) {
			late(e)
			e.Records[2].Reply.Body = []byte(`{"position":3,"visible_within_ms":60000}`)
		}, ""},
		{autocomplete.CountedInTime, "of nothing, and a fault excuses that", check.Undecided,
			func(e *evidence) {
				for i := range 3 {
					reply(i, fmt.Sprintf(`{"position":%d,"visible_within_ms":2000}`, i+1))(e)
				}
				e.Records = e.Records[:4]
				reply(3, `{"version":0,"phrases":[]}`)(e)
				e.Records[3].Start, e.Records[3].End = 4*time.Second, 4*time.Second+ms
				fault(e)
			}, "had 0 of the 3 changes"},
		{autocomplete.CountedInTime, "nobody looked", check.Undecided,
			without(autocomplete.KindSuggest), "nobody asked"},

		{autocomplete.Settled, "the last query is missing", check.Broken, func(e *evidence) {
			e.Audit.Lists[0].Version = 3
		}, "of version 3, and the log ends at 4"},
		{autocomplete.Settled, "a list is another one", check.Broken, func(e *evidence) {
			e.Audit.Lists[0].Phrases = e.Audit.Lists[0].Phrases[1:]
		}, `in the end, "t"`},
		{autocomplete.Settled, "a list is missing", check.Broken, func(e *evidence) {
			e.Audit.Lists = []autocomplete.ListRow{}
		}, `nothing is said of "t"`},
		{autocomplete.Settled, "two lists", check.Broken, func(e *evidence) {
			e.Audit.Lists = append(e.Audit.Lists, e.Audit.Lists[0])
		}, `two lists`},
		{autocomplete.Settled, "no lists", check.Undecided,
			func(e *evidence) { e.Audit.Lists = nil }, "no lists"},
	})
}
