package recentsearches_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"testing"
	"time"

	"stampede/harness/check"
	"stampede/harness/history"
	"stampede/harness/suttest"
	"stampede/systems/recentsearches"
)

// proof is what the judges of recent searches are proved by.
func proof() suttest.Proof[*evidence] {
	return suttest.Played(suttest.Proof[*evidence]{
		Unnoticed: map[string][]string{
			"no operation has a client": {"change client of search", "change client of forget",
				"change client of recent", "change client of login", "change client of history"},
			"a read may be refused": {"deny recent", "deny login", "deny history"},
			"any promise within the bounds may be made": {"raise visible_within_ms in answers to search",
				"raise visible_within_ms in answers to forget"},
		},
		Absent: map[string][]string{
			"none is refused": {"invent search", "invent forget", "invent recent", "invent login",
				"invent history"},
		},
	},
		recentsearches.System(), crowd, anyCrowd, 250, time.Second, newBook)
}

// TestJudges: the judges are sound, a smoke run decides all of them, and none is vacuous.
func TestJudges(t *testing.T) {
	suttest.Prove(t, proof(), 50, []suttest.Corruption[*evidence]{
		{Name: "a forgotten term comes back", Breaks: recentsearches.ListOfHistory,
			Do: func(e *evidence, pick func(int) int) bool {
				return changeList(e, pick, func(l *recentsearches.List) { l.Terms = append(l.Terms, "gone") })
			}},
		{Name: "a list is an older one", Breaks: recentsearches.SeenByAll,
			Do: func(e *evidence, pick func(int) int) bool {
				// The first change of a user has certainly been acknowledged before the last look.
				last := map[string]*history.Record{}
				for i := range e.Records {
					if r := &e.Records[i]; r.Op.Kind == recentsearches.KindRecent && r.Outcome == history.OK {
						last[r.Op.Key] = r
					}
				}
				return suttest.Change(e.Records, pick, func(r *history.Record) bool {
					return r.Op.Kind == recentsearches.KindSearch && r.Outcome == history.OK &&
						last[r.Op.Key] != nil && last[r.Op.Key].Start > r.End
				}, func(first *history.Record) {
					look := last[first.Op.Key]
					look.Reply.Value, look.Reply.Body = 0, []byte(`{"version":0,"terms":[]}`)
				})
			}},
		{Name: "the last change is in no list", Breaks: recentsearches.Settled,
			Do: func(e *evidence, pick func(int) int) bool {
				return suttest.Change(e.Audit.Lists, pick, func(r *recentsearches.ListRow) bool {
					return len(r.Terms) > 0
				}, func(row *recentsearches.ListRow) { row.Terms = row.Terms[1:] })
			}},
		{Name: "the archive is not read", Breaks: recentsearches.HistoryWhole,
			Do: func(e *evidence, pick func(int) int) bool {
				rec := some(e, pick, recentsearches.KindHistory)
				var h recentsearches.History
				if rec == nil || json.Unmarshal(rec.Reply.Body, &h) != nil || len(h.Changes) < 2 {
					return false
				}
				h.Changes, h.Found = h.Changes[:len(h.Changes)-1], h.Found-1
				rec.Reply.Body, _ = json.Marshal(h)
				return true
			}},
		{Name: "two changes are in the wrong order", Breaks: recentsearches.CommitOrder,
			Do: func(e *evidence, pick func(int) int) bool {
				return suttest.Change(e.Records, pick, func(r *history.Record) bool {
					return r.Op.Kind == recentsearches.KindForget && r.Outcome == history.OK &&
						slices.ContainsFunc(e.Records, func(o history.Record) bool {
							return o.Op.Key == r.Op.Key && o.Op.Kind == recentsearches.KindSearch &&
								o.Outcome == history.OK && o.End < r.Start
						})
				}, func(rec *history.Record) {
					rec.Reply.Value = 1
					rec.Reply.Body = []byte(`{"version":1,"visible_within_ms":0}`)
				})
			}},
	})
}

// changeList changes a list that was shown and had terms.
func changeList(e *evidence, pick func(int) int, change func(*recentsearches.List)) bool {
	var l recentsearches.List
	return suttest.Change(e.Records, pick, func(r *history.Record) bool {
		l = recentsearches.List{}
		return r.Op.Kind == recentsearches.KindRecent && r.Outcome == history.OK &&
			json.Unmarshal(r.Reply.Body, &l) == nil && len(l.Terms) > 0
	}, func(rec *history.Record) {
		l = recentsearches.List{}
		_ = json.Unmarshal(rec.Reply.Body, &l)
		change(&l)
		rec.Reply.Body, _ = json.Marshal(l)
		rec.Reply.Value = l.Version
	})
}

// some is a record of a kind that was answered.
func some(e *evidence, pick func(int) int, kind string) *history.Record {
	return suttest.PickFrom(e.Records, pick, func(r *history.Record) bool {
		return r.Op.Kind == kind && r.Outcome == history.OK
	})
}

// smallRun is a run that every invariant accepts. User 1 searches for tea and for milk, forgets
// tea, and looks at the list after each and at the history in the end.
func smallRun() *evidence {
	b := newBook(nil, nil)
	e := &evidence{System: recentsearches.System(), P: crowd()}
	do := func(kind string, request any) {
		op := b.api.Op(kind, request)
		b.Do(op, func(reply history.Reply, _ error) {
			start := 10 * ms * time.Duration(1+len(e.Records))
			e.Records = append(e.Records, history.Record{Seq: uint64(len(e.Records)), Op: op,
				Reply: reply, Outcome: history.OK, Intended: start, Start: start, End: start + 5*ms})
		})
	}
	look := func(id uint64) {
		do(recentsearches.KindRecent, recentsearches.UserRequest{ID: id, User: 1})
	}
	search := func(id uint64, term string) {
		do(recentsearches.KindSearch, recentsearches.SearchRequest{ID: id, User: 1, Term: term})
	}
	search(16, "tea") // record 0
	look(17)
	search(32, "milk") // 2
	look(33)
	do(recentsearches.KindForget, recentsearches.ForgetRequest{ID: 48, User: 1, Term: "tea"}) // 4
	look(49)
	do(recentsearches.KindHistory, recentsearches.HistoryRequest{ID: 50, User: 1, Most: 9}) // 6
	do(recentsearches.KindLogin, recentsearches.LoginRequest{ID: 51, User: 1})              // 7
	e.Audit = b.Audit()
	return e
}

type clause suttest.Case[*evidence]

// TestClauses: each clause accepts what is right and refuses what is wrong.
func TestClauses(t *testing.T) {
	reply := func(record int, text string) func(*evidence) {
		return func(e *evidence) { e.Records[record].Reply.Body = []byte(text) }
	}
	// Version 2 is acknowledged as visible within 10 ms, and record 3, a look, shows version 1.
	late := func(e *evidence) {
		e.Records[2].Reply.Body = []byte(`{"version":2,"visible_within_ms":10}`)
		e.Records[3].Start, e.Records[3].End = 900*ms, 901*ms
		e.Records[3].Reply = e.Records[1].Reply
		e.Records = append(e.Records[:4], e.Records[7])
		e.Audit.Changes, e.Audit.Log = e.Audit.Changes[:2], e.Audit.Log[:2]
	}
	// All changes are promised for much later than this run ends.
	never := func(e *evidence) {
		for i, v := range map[int]int{0: 1, 2: 2, 4: 3} {
			reply(i, fmt.Sprintf(`{"version":%d,"visible_within_ms":10000}`, v))(e)
		}
	}
	fault := func(e *evidence) {
		e.Windows = []history.Window{{Kind: history.FaultWindow, Name: "away", Start: 40 * ms,
			End: 200 * ms, Recovered: 300 * ms, Fault: "kill redis", Evidence: []string{"it was off"}}}
	}
	noRecords := func(kind string) func(*evidence) {
		return func(e *evidence) {
			e.Records = slices.DeleteFunc(e.Records, func(r history.Record) bool {
				return r.Op.Kind == kind
			})
		}
	}
	suttest.Clauses(t, proof(), smallRun, []clause{
		{recentsearches.AckedKept, "one is missing", check.Broken, func(e *evidence) {
			e.Audit.Changes = e.Audit.Changes[1:]
		}, "was acknowledged"},
		{recentsearches.AckedKept, "one is there twice", check.Broken, func(e *evidence) {
			row := e.Audit.Changes[0]
			row.Version = 9
			e.Audit.Changes = append(e.Audit.Changes, row)
		}, "operation 16"},
		{recentsearches.AckedKept, "nobody asked", check.Broken, func(e *evidence) {
			e.Audit.Changes[2].ID = 999
		}, "999"},
		{recentsearches.AckedKept, "two have one version", check.Broken, func(e *evidence) {
			e.Audit.Changes[1].Version = 1
		}, "user-1"},
		{recentsearches.AckedKept, "another term", check.Broken, func(e *evidence) {
			e.Audit.Changes[1].Term = "mild"
		}, `a search for "milk", and a search for "mild"`},
		{recentsearches.AckedKept, "a forgetting is a search", check.Broken, func(e *evidence) {
			e.Audit.Changes[2].Forgotten = false
		}, `forgetting "tea", and a search`},
		{recentsearches.AckedKept, "another version than was said", check.Broken,
			reply(4, `{"version":4,"visible_within_ms":0}`), "was given the version 4, and is kept as 3"},
		{recentsearches.AckedKept, "of a version that nobody was told", check.Held, func(e *evidence) {
			e.Records[4].Outcome, e.Records[4].Reply = history.Unknown, history.Reply{}
		}, ""},
		{recentsearches.AckedKept, "a promise that is never due", check.Broken,
			reply(4, `{"version":3,"visible_within_ms":10001}`), "expected 0 to 10000, got 10001"},
		{recentsearches.AckedKept, "the longest promise", check.Held,
			reply(4, `{"version":3,"visible_within_ms":10000}`), ""},
		{recentsearches.AckedKept, "an answer that is none", check.Broken, reply(0, "["),
			"cannot be read"},
		{recentsearches.AckedKept, "no list", check.Undecided,
			func(e *evidence) { e.Audit.Changes = nil }, "no change"},

		{recentsearches.CommitOrder, "a lower version", check.Broken,
			reply(2, `{"version":1,"visible_within_ms":0}`), "has version 1"},
		{recentsearches.CommitOrder, "a lower version that nobody was told", check.Broken,
			func(e *evidence) {
				e.Records[4].Outcome, e.Records[4].Reply = history.Unknown, history.Reply{}
				e.Audit.Changes[1].Version, e.Audit.Changes[2].Version = 3, 2
				e.Records[2].Reply.Body = []byte(`{"version":3,"visible_within_ms":0}`)
			}, "has version 2"},
		{recentsearches.CommitOrder, "both at once", check.Held, func(e *evidence) {
			e.Records[0].End = e.Records[2].Start
			reply(2, `{"version":1,"visible_within_ms":0}`)(e)
		}, ""},
		{recentsearches.CommitOrder, "one change", check.Undecided, func(e *evidence) {
			e.Records = e.Records[:2]
		}, "after another"},

		{recentsearches.ListOfHistory, "what was forgotten is back", check.Broken,
			reply(5, `{"version":3,"terms":["milk","tea"]}`), `after that change it is ["milk"]`},
		{recentsearches.ListOfHistory, "in another order", check.Broken,
			reply(3, `{"version":2,"terms":["tea","milk"]}`), `after that change it is ["milk" "tea"]`},
		{recentsearches.ListOfHistory, "of no change", check.Broken,
			reply(5, `{"version":7,"terms":[]}`), "no such change is kept"},
		{recentsearches.ListOfHistory, "before it was asked for", check.Broken, func(e *evidence) {
			e.Records[2].Start = 80 * ms
		}, "before that was asked for"},
		{recentsearches.ListOfHistory, "at a login", check.Broken,
			reply(7, `{"version":3,"terms":[]}`), "after that change it is"},
		{recentsearches.ListOfHistory, "a list that is none", check.Broken, reply(3, "["),
			"cannot be read"},
		{recentsearches.ListOfHistory, "nothing forgotten was looked at", check.Undecided,
			func(e *evidence) { e.Records = e.Records[:4] }, "after a term was forgotten"},
		{recentsearches.ListOfHistory, "nobody looked", check.Undecided, func(e *evidence) {
			noRecords(recentsearches.KindRecent)(e)
			noRecords(recentsearches.KindLogin)(e)
		}, "nobody looked"},

		{recentsearches.SeenByAll, "an older list", check.Broken,
			reply(3, `{"version":1,"terms":["tea"]}`), "2 was acknowledged at 35ms as visible"},
		{recentsearches.SeenByAll, "a look that began before", check.Held, func(e *evidence) {
			reply(3, `{"version":1,"terms":["tea"]}`)(e)
			e.Records[3].Start = e.Records[2].End
		}, ""},
		{recentsearches.SeenByAll, "later than promised", check.Broken, late,
			"to be visible within 10ms"},
		{recentsearches.SeenByAll, "later than promised after a fault", check.Held, func(e *evidence) {
			late(e)
			fault(e)
		}, ""},
		{recentsearches.SeenByAll, "later than promised long after a fault", check.Broken,
			func(e *evidence) {
				late(e)
				fault(e)
				e.Records[3].Start, e.Records[3].End = time.Minute, time.Minute+ms
			}, "to be visible within 10ms"},
		{recentsearches.SeenByAll, "what is promised for later hides no other", check.Broken,
			func(e *evidence) {
				e.Records[4].Reply.Body = []byte(`{"version":3,"visible_within_ms":10}`)
				e.Records[5].Reply.Body = []byte(`{"version":1,"terms":["tea"]}`)
				e.Records[5].Start, e.Records[5].End = 900*ms, 901*ms
				fault(e)
			}, "2 was acknowledged at 35ms as visible"},
		{recentsearches.SeenByAll, "nobody looked", check.Undecided, func(e *evidence) {
			noRecords(recentsearches.KindRecent)(e)
			noRecords(recentsearches.KindLogin)(e)
		}, "nobody looked"},

		{recentsearches.SeenByAll, "a list of nothing, and the promise is not due", check.Undecided,
			func(e *evidence) {
				never(e)
				e.Records[3].Reply.Body = []byte(`{"version":0,"terms":[]}`)
				e.Records[3].Start, e.Records[3].End = 4*time.Second, 4*time.Second+ms
			}, "had 0 of the 3 changes"},
		{recentsearches.SeenByAll, "a list of half", check.Held, func(e *evidence) {
			never(e)
			e.Records[0].Reply.Body = []byte(`{"version":1,"visible_within_ms":0}`)
			e.Records[3].Reply.Body = []byte(`{"version":1,"terms":["tea"]}`)
			e.Records[3].Start, e.Records[3].End = 4*time.Second, 4*time.Second+ms
		}, ""},

		{recentsearches.HistoryWhole, "a history of nothing, and the promise is not due",
			check.Undecided, func(e *evidence) {
				never(e)
				more := e.Records[6]
				more.Op.ID, more.Reply.Body = 52, []byte(`{"found":0,"changes":[]}`)
				for range 3 {
					more.Start, more.End = more.Start+3*time.Second, more.Start+3*time.Second+ms
					e.Records = append(e.Records, more)
				}
			}, "had 0 of the 9 changes"},
		{recentsearches.HistoryWhole, "more than was asked for", check.Broken, func(e *evidence) {
			e.Records[6].Op = recentsearches.API().Op(recentsearches.KindHistory,
				recentsearches.HistoryRequest{ID: 50, User: 1, Most: 2})
		}, "was to be shown 2"},
		{recentsearches.HistoryWhole, "one is missing", check.Broken, reply(6,
			`{"found":2,"changes":[{"version":3,"term":"tea","forgotten":true},{"version":1,"term":"tea"}]}`),
			"number 2 is not"},
		{recentsearches.HistoryWhole, "the newest is missing", check.Broken, reply(6,
			`{"found":2,"changes":[{"version":2,"term":"milk"},{"version":1,"term":"tea"}]}`),
			"was shown version 2 from"},
		{recentsearches.HistoryWhole, "one too many", check.Broken, reply(6, `{"found":4,"changes":[`+
			`{"version":3,"term":"tea","forgotten":true},{"version":2,"term":"milk"},`+
			`{"version":1,"term":"tea"},{"version":1,"term":"tea"}]}`), "4 changes up to version 3, and was to be shown 3"},
		{recentsearches.HistoryWhole, "of no change", check.Broken,
			reply(6, `{"found":1,"changes":[{"version":9,"term":"tea"}]}`), "no such change is kept"},
		{recentsearches.HistoryWhole, "found more than it shows", check.Broken,
			reply(6, `{"found":9,"changes":[]}`), "9 changes were found"},
		{recentsearches.HistoryWhole, "later than promised", check.Broken, func(e *evidence) {
			e.Records[4].Reply.Body = []byte(`{"version":3,"visible_within_ms":10}`)
			e.Records[6].Reply.Body = []byte(
				`{"found":2,"changes":[{"version":2,"term":"milk"},{"version":1,"term":"tea"}]}`)
			e.Records[6].Start, e.Records[6].End = 900*ms, 901*ms
		}, "to be visible within 10ms"},
		{recentsearches.HistoryWhole, "an answer that is none", check.Broken, reply(6, "["),
			"cannot be read"},
		{recentsearches.HistoryWhole, "nobody read one", check.Undecided,
			noRecords(recentsearches.KindHistory), "no history was shown"},

		{recentsearches.Settled, "the last change is missing", check.Broken, func(e *evidence) {
			e.Audit.Lists[0] = recentsearches.ListRow{User: 1, Version: 2, Terms: []string{"milk", "tea"}}
		}, `should have ["milk"]`},
		{recentsearches.Settled, "no list of a user", check.Broken, func(e *evidence) {
			e.Audit.Lists = e.Audit.Lists[:0]
		}, "has no list"},
		{recentsearches.Settled, "two lists", check.Broken, func(e *evidence) {
			e.Audit.Lists = append(e.Audit.Lists, e.Audit.Lists[0])
		}, "two lists"},
		{recentsearches.Settled, "no log", check.Held, func(e *evidence) {
			e.Audit.Log, e.Audit.Counts = nil, nil
		}, ""},
		{recentsearches.Settled, "more in the log", check.Broken, func(e *evidence) {
			e.Audit.Log = append(e.Audit.Log, e.Audit.Log[0])
		}, "in the log as version 1, and not"},
		{recentsearches.Settled, "less in the log", check.Broken, func(e *evidence) {
			e.Audit.Log = e.Audit.Log[1:]
		}, "in the history as version 1, and not"},
		{recentsearches.Settled, "counted twice", check.Broken, func(e *evidence) {
			e.Audit.Counts[0].Searches++
		}, "is counted 2 times"},
		{recentsearches.Settled, "nothing is counted", check.Broken, func(e *evidence) {
			e.Audit.Counts = []recentsearches.CountRow{}
		}, "is not counted"},
		{recentsearches.Settled, "an empty log", check.Broken, func(e *evidence) {
			e.Audit.Log = []recentsearches.ChangeRow{}
		}, "and not in the log"},
		{recentsearches.Settled, "not counted", check.Broken, func(e *evidence) {
			e.Audit.Counts = e.Audit.Counts[1:]
		}, "is not counted"},
		{recentsearches.Settled, "no lists", check.Undecided,
			func(e *evidence) { e.Audit.Lists = nil }, "no lists"},
	})
}
