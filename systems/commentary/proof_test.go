package commentary_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"testing"
	"time"

	"stampede/harness/check"
	"stampede/harness/history"
	"stampede/harness/suttest"
	"stampede/systems/commentary"
)

// proof is what the judges of commentary are proved by.
func proof() suttest.Proof[*evidence] {
	return suttest.Played(suttest.Proof[*evidence]{
		Unnoticed: map[string][]string{
			"no operation has a client": {"change client of publish", "change client of correct",
				"change client of latest", "change client of past"},
			"a read may be refused": {"deny latest", "deny past"},
			"any promise within the bounds may be made": {"raise visible_within_ms in answers to publish",
				"raise visible_within_ms in answers to correct"},
			"when to look again is a recommendation": {"raise next_poll_ms in answers to latest",
				"lower next_poll_ms in answers to latest"},
			"a version may have no change of its own": {"raise version of pages",
				"raise version of past"},
		},
		Absent: map[string][]string{
			"none is refused": {"invent publish", "invent correct", "invent latest", "invent past"},
		},
	}, commentary.System(), crowd, anyCrowd, 70, time.Second, newBoard)
}

// TestJudges: the judges are sound, a smoke run decides all of them, and none is vacuous.
func TestJudges(t *testing.T) {
	suttest.Prove(t, proof(), 50, []suttest.Corruption[*evidence]{
		{Name: "the oldest comment is missing", Breaks: commentary.VersionShown,
			Do: func(e *evidence, pick func(int) int) bool {
				return change(e, pick, func(l *commentary.Latest) bool {
					l.Comments = l.Comments[:max(0, len(l.Comments)-1)]
					return true
				})
			}},
		{Name: "an answer has the ETag of the one before", Breaks: commentary.OneAnswer,
			Do: func(e *evidence, pick func(int) int) bool {
				return change(e, pick, func(l *commentary.Latest) bool {
					l.Version--
					return true
				})
			}},
		{Name: "a viewer is shown an older version", Breaks: commentary.NeverBack,
			Do: func(e *evidence, pick func(int) int) bool {
				return suttest.Change(e.Records, pick, func(r *history.Record) bool {
					req := asked(r)
					return r.Outcome == history.OK && req != nil && req.Since > 0 && r.Reply.Value > 0
				}, func(rec *history.Record) {
					rec.Reply.Body, rec.Reply.Value = []byte(`{"version":0,"next_poll_ms":1,"comments":[]}`), 0
				})
			}},
		{Name: "a viewer is shown nothing", Breaks: commentary.SeenInTime,
			Do: func(e *evidence, pick func(int) int) bool {
				acked := map[string]time.Duration{}
				for _, r := range e.Records {
					if before, has := acked[r.Op.Key]; r.Op.Kind == commentary.KindPublish &&
						r.Outcome == history.OK && (!has || r.End < before) {
						acked[r.Op.Key] = r.End
					}
				}
				return suttest.Change(e.Records, pick, func(r *history.Record) bool {
					end, has := acked[r.Op.Key]
					return r.Op.Kind == commentary.KindLatest && r.Outcome == history.OK && has && r.Start > end
				}, func(rec *history.Record) {
					rec.Reply.Body, rec.Reply.Value = []byte(`{"version":0,"next_poll_ms":1,"comments":[]}`), 0
				})
			}},
		{Name: "a gap in what is older", Breaks: commentary.PastWhole,
			Do: func(e *evidence, pick func(int) int) bool {
				var p commentary.Past
				rec := some(e, pick, commentary.KindPast)
				if rec == nil || json.Unmarshal(rec.Reply.Body, &p) != nil || len(p.Comments) < 2 {
					return false
				}
				p.Comments = p.Comments[1:]
				rec.Reply.Body, _ = json.Marshal(p)
				return true
			}},
		{Name: "two changes are in the wrong order", Breaks: commentary.CommitOrder,
			Do: func(e *evidence, pick func(int) int) bool {
				rec := some(e, pick, commentary.KindCorrect)
				for i := range e.Records { // it may have been sent again
					if r := &e.Records[i]; rec != nil && r.Op.ID == rec.Op.ID && r.Outcome == history.OK {
						r.Reply.Body, r.Reply.Value = []byte(`{"version":1,"visible_within_ms":0}`), 1
					}
				}
				return rec != nil
			}},
		{Name: "a page lacks the last comment", Breaks: commentary.Settled,
			Do: func(e *evidence, pick func(int) int) bool {
				return suttest.Change(e.Audit.Pages, pick, func(*commentary.PageRow) bool { return true },
					func(row *commentary.PageRow) { row.Comments = row.Comments[1:] })
			}},
	})
}

// asked is what a viewer asked for, nil if the record is no viewer's.
func asked(r *history.Record) *commentary.LatestRequest {
	req, err := commentary.API().Asked(r.Op)
	if latest, is := req.(*commentary.LatestRequest); is && err == nil {
		return latest
	}
	return nil
}

// change changes an answer that has comments, and that another one with its ETag stands beside.
func change(e *evidence, pick func(int) int, do func(*commentary.Latest) bool) bool {
	read := func(r *history.Record) (l commentary.Latest, is bool) {
		is = r.Op.Kind == commentary.KindLatest && r.Outcome == history.OK &&
			json.Unmarshal(r.Reply.Body, &l) == nil && len(l.Comments) > 0
		return l, is
	}
	rec := suttest.PickFrom(e.Records, pick, func(r *history.Record) bool {
		l, is := read(r)
		return is && slices.ContainsFunc(e.Records, func(other history.Record) bool {
			m, too := read(&other)
			return too && other.Op.ID != r.Op.ID && other.Op.Key == r.Op.Key && m.ETag == l.ETag &&
				asked(&other).Since == asked(r).Since && asked(&other).Wait == asked(r).Wait
		})
	})
	if rec == nil {
		return false
	}
	l, _ := read(rec)
	done := do(&l)
	rec.Reply.Body, _ = json.Marshal(l)
	rec.Reply.Value = l.Version
	return done
}

// some is a record of a kind that was answered.
func some(e *evidence, pick func(int) int, kind string) *history.Record {
	return suttest.PickFrom(e.Records, pick, func(r *history.Record) bool {
		return r.Op.Kind == kind && r.Outcome == history.OK
	})
}

// smallRun is a run that every invariant accepts: two comments, of which the first is corrected,
// and viewers in between.
func smallRun() *evidence {
	b := newBoard(nil, nil)
	e := &evidence{System: commentary.System(), P: crowd()}
	do := func(kind string, request any) {
		op := b.api.Op(kind, request)
		b.Do(op, func(reply history.Reply, _ error) {
			start := 10 * ms * time.Duration(1+len(e.Records))
			e.Records = append(e.Records, history.Record{Seq: uint64(len(e.Records)), Op: op,
				Reply: reply, Outcome: history.OK, Intended: start, Start: start, End: start + 5*ms})
		})
	}
	look := func(id uint64, since int64, have string) {
		do(commentary.KindLatest,
			commentary.LatestRequest{ID: id, Match: 1, Since: since, Have: have})
	}
	say := func(id uint64, ball, text string) {
		do(commentary.KindPublish,
			commentary.PublishRequest{ID: id, Match: 1, Ball: ball, Text: text})
	}
	say(64, "1.1", "six") // 0
	look(128, 0, "")
	look(129, 0, `"1"`) // 2
	say(192, "1.2", "out")
	look(130, 0, `"1"`) // 4
	do(commentary.KindCorrect, commentary.CorrectRequest{ID: 65, Match: 1, Comment: 1, Text: "4"})
	look(131, 2, "") // 6
	look(132, 3, "")
	do(commentary.KindPast, commentary.PastRequest{ID: 191, Match: 1, Before: 9, Most: 9}) // 8
	e.Audit = b.Audit()
	return e
}

type clause suttest.Case[*evidence]

// TestClauses: each clause accepts what is right and refuses what is wrong.
func TestClauses(t *testing.T) {
	reply := func(record int, text string) func(*evidence) {
		return func(e *evidence) { e.Records[record].Reply.Body = []byte(text) }
	}
	const (
		six   = `{"id":1,"version":1,"ball":"1.1","text":"six"}`
		four  = `{"id":1,"version":3,"ball":"1.1","text":"4"}`
		out   = `{"id":2,"version":2,"ball":"1.2","text":"out"}`
		after = `,"next_poll_ms":500,"etag":"\"2\""`
	)
	// Version 3 is acknowledged as visible within 10 ms, and record 7 shows version 2 much later.
	late := func(e *evidence) {
		e.Records[5].Reply.Body = []byte(`{"version":3,"visible_within_ms":10}`)
		e.Records[7].Start, e.Records[7].End = 900*ms, 901*ms
		e.Records[7].Op = e.Records[4].Op
		e.Records[7].Reply = e.Records[4].Reply
	}
	// The correction is refused, because there is no such comment.
	denied := func(e *evidence) {
		suttest.Deny(&e.Records[5], commentary.ErrNoComment)
		e.Audit.Changes = e.Audit.Changes[:2]
	}
	// A record is sent again, and answered with a version.
	again := func(record int, version int64) func(*evidence) {
		return func(e *evidence) {
			r := e.Records[record]
			r.Start, r.End, r.Reply.Value = time.Second, time.Second+ms, version
			r.Reply.Body = fmt.Appendf(nil, `{"version":%d,"visible_within_ms":0}`, version)
			e.Records = append(e.Records, r)
		}
	}
	// So many comments may have been published that the first is too old to be corrected.
	old := func(e *evidence) {
		for i := range uint64(29) {
			more := e.Records[3] // its key is also that of the answer
			more.Op = commentary.API().Op(commentary.KindPublish,
				commentary.PublishRequest{ID: 1000 + i, Match: 1, Ball: "2.1", Text: "wide"})
			more.Outcome, more.Reply, more.End = history.Unknown, history.Reply{}, history.Never
			e.Records = append(e.Records, more)
		}
	}
	fault := func(e *evidence) {
		e.Windows = []history.Window{{Kind: history.FaultWindow, Name: "away", Start: 40 * ms,
			End: 200 * ms, Recovered: 300 * ms, Fault: "kill redis", Evidence: []string{"it was off"}}}
	}
	without := func(kinds ...string) func(*evidence) {
		return func(e *evidence) {
			e.Records = slices.DeleteFunc(e.Records, func(r history.Record) bool {
				return slices.Contains(kinds, r.Op.Kind)
			})
		}
	}
	records := func(n ...int) func(*evidence) {
		return func(e *evidence) {
			all := e.Records
			e.Records = nil
			for _, i := range n {
				e.Records = append(e.Records, all[i])
			}
		}
	}
	suttest.Clauses(t, proof(), smallRun, []clause{
		{commentary.AckedKept, "one is missing", check.Broken, func(e *evidence) {
			e.Audit.Changes = e.Audit.Changes[1:]
		}, "was acknowledged"},
		{commentary.AckedKept, "one is there twice", check.Broken, func(e *evidence) {
			row := e.Audit.Changes[0]
			row.Version, row.Comment = 9, 9
			e.Audit.Changes = append(e.Audit.Changes, row)
		}, "operation 64"},
		{commentary.AckedKept, "nobody asked", check.Broken, func(e *evidence) {
			e.Audit.Changes[2].ID = 999
		}, "999"},
		{commentary.AckedKept, "two have one version", check.Broken, func(e *evidence) {
			e.Audit.Changes[1].Version = 1
		}, "match-1"},
		{commentary.AckedKept, "another text", check.Broken, func(e *evidence) {
			e.Audit.Changes[1].Text = "in"
		}, "was asked for, and"},
		{commentary.AckedKept, "another ball", check.Broken, func(e *evidence) {
			e.Audit.Changes[1].Ball = "1.3"
		}, "was asked for, and"},
		{commentary.AckedKept, "a correction of another comment", check.Broken, func(e *evidence) {
			e.Audit.Changes[2].Comment = 2
		}, "was asked for, and"},
		{commentary.AckedKept, "another version than was said", check.Broken,
			reply(3, `{"version":7,"visible_within_ms":0}`), "was given the version 7"},
		{commentary.AckedKept, "an answer that is none", check.Broken, reply(0, "["), "cannot be read"},
		{commentary.AckedKept, "a promise that is never due", check.Broken,
			reply(0, `{"version":1,"visible_within_ms":10001}`), "expected 0 to 10000"},
		{commentary.AckedKept, "a correction of what is there is refused", check.Broken, denied,
			"comment 1 was acknowledged before 60ms"},
		{commentary.AckedKept, "a correction while the comment is published", check.Held,
			func(e *evidence) {
				denied(e)
				e.Records[0].End = e.Records[5].Start
			}, ""},
		{commentary.AckedKept, "a correction of what may be old", check.Held, func(e *evidence) {
			denied(e)
			old(e)
		}, ""},
		{commentary.AckedKept, "sent again, and answered as before", check.Held, again(5, 3), ""},
		{commentary.AckedKept, "sent again, and answered with another version", check.Broken,
			again(3, 7), "the change 192 was answered with"},
		{commentary.AckedKept, "a correction that is kept is denied", check.Broken, func(e *evidence) {
			again(5, 3)(e)
			suttest.Deny(&e.Records[9], commentary.ErrNoComment)
			old(e)
		}, "operation 65 was acknowledged at 65ms, but denied when it was sent again at 1s"},
		{commentary.AckedKept, "no list", check.Undecided,
			func(e *evidence) { e.Audit.Changes = nil }, "no change"},

		{commentary.CommitOrder, "a lower version", check.Broken,
			reply(5, `{"version":1,"visible_within_ms":0}`), "has version 1"},
		{commentary.CommitOrder, "both at once", check.Held, func(e *evidence) {
			e.Records[3].End = e.Records[5].Start
			reply(5, `{"version":2,"visible_within_ms":0}`)(e)
		}, ""},
		{commentary.CommitOrder, "one change", check.Undecided, records(0, 1), "after something else"},

		{commentary.VersionShown, "without a correction", check.Broken,
			reply(6, `{"version":3,"comments":[`+six+`]`+after+`}`), "number 1 is not 1 (1.1"},
		{commentary.VersionShown, "what the viewer has, too", check.Broken,
			reply(6, `{"version":3,"comments":[`+four+`,`+out+`]`+after+`}`), "is too much"},
		{commentary.VersionShown, "in another order", check.Broken,
			reply(4, `{"version":2,"comments":[`+six+`,`+out+`]`+after+`}`), "number 1 is not 2"},
		{commentary.VersionShown, "a correction that is a new comment", check.Broken,
			reply(6, `{"version":3,"comments":[{"id":3,"version":3,"ball":"1.1","text":"4"}]`+after+`}`),
			"number 1 is not"},
		{commentary.VersionShown, "before it was asked for", check.Broken, func(e *evidence) {
			e.Records[3].Start = 80 * ms
			e.Records[3].End = 85 * ms
		}, "was asked for at 80ms"},
		{commentary.VersionShown, "an answer that is none", check.Broken, reply(4, "["),
			"cannot be read"},
		{commentary.VersionShown, "nobody had a version", check.Undecided, records(0, 1, 3, 4, 5),
			"nobody who had a version"},
		{commentary.VersionShown, "nothing was corrected", check.Undecided, func(e *evidence) {
			records(0, 1, 3, 4)(e)
			e.Audit.Changes = e.Audit.Changes[:2]
		}, "no comment was corrected"},
		{commentary.VersionShown, "nobody looked", check.Undecided, without(commentary.KindLatest),
			"nobody was shown"},

		{commentary.OneAnswer, "two answers", check.Broken,
			reply(4, `{"version":2,"comments":[`+out+`,`+six+`],"etag":"\"1\""}`), "are not the same"},
		{commentary.OneAnswer, "unchanged since no answer", check.Broken, func(e *evidence) {
			e.Records[1].Reply.Body = []byte(`{"version":1,"comments":[` + six + `],"etag":"\"7\""}`)
		}, "and no answer has it"},
		{commentary.OneAnswer, "another one is unchanged", check.Broken,
			reply(2, `{"etag":"\"2\"","unchanged":true}`), `was told that "2" has not changed`},
		{commentary.OneAnswer, "unchanged, in another encoding", check.Held, func(e *evidence) {
			reply(1, `{"version":1,"comments":[`+six+`],"etag":"W/\"1\""}`)(e)
			reply(2, `{"etag":"W/\"1\"","unchanged":true}`)(e)
		}, ""},
		{commentary.OneAnswer, "unchanged without having anything", check.Broken, func(e *evidence) {
			e.Records[2].Op = e.Records[1].Op
			e.Records[2].Op.ID = 129
			reply(2, `{"unchanged":true}`)(e)
		}, "and no answer has it"},
		{commentary.OneAnswer, "no ETags", check.Held, func(e *evidence) {
			records(0, 1, 4)(e)
			reply(1, `{"version":1,"comments":[`+six+`]}`)(e)
			reply(2, `{"version":2,"comments":[`+out+`,`+six+`]}`)(e)
		}, ""},
		{commentary.OneAnswer, "nobody has anything", check.Undecided, records(0, 1, 3, 4, 5, 6),
			"nobody was told"},

		{commentary.NeverBack, "an older version", check.Broken,
			reply(6, `{"version":1,"comments":[]}`), "with version 2 was shown version 1"},
		{commentary.NeverBack, "unchanged since an older version", check.Broken, func(e *evidence) {
			reply(6, `{"version":1,"comments":[],"etag":"\"1\""}`)(e)
			e.Records[7].Op = e.Records[6].Op
			e.Records[7].Op.ID = 132
			reply(7, `{"etag":"\"1\"","unchanged":true}`)(e)
		}, "with version 2 was shown version 1"},
		{commentary.NeverBack, "nobody had a version", check.Undecided, records(0, 1, 2, 3, 4),
			"no viewer"},

		{commentary.SeenInTime, "an older answer", check.Broken,
			reply(4, `{"version":1,"comments":[`+six+`]}`), "2 was acknowledged at 45ms as visible"},
		{commentary.SeenInTime, "unchanged since an older answer", check.Broken,
			reply(4, `{"etag":"\"1\"","unchanged":true}`), "2 was acknowledged at 45ms as visible"},
		{commentary.SeenInTime, "a look that began before", check.Held, func(e *evidence) {
			reply(4, `{"version":1,"comments":[`+six+`]}`)(e)
			e.Records[4].Start = e.Records[3].End
		}, ""},
		{commentary.SeenInTime, "later than promised", check.Broken, late, "to be visible within 10ms"},
		{commentary.SeenInTime, "later than promised after a fault", check.Held, func(e *evidence) {
			late(e)
			fault(e)
		}, ""},
		{commentary.SeenInTime, "gone in a later fault", check.Held, func(e *evidence) {
			late(e)
			fault(e)
			e.Windows[0].Start = 150 * ms
		}, ""},
		{commentary.SeenInTime, "gone for longer", check.Broken, func(e *evidence) {
			late(e)
			fault(e)
			e.Windows[0].Start = 150 * ms
			e.Records[7].Start, e.Records[7].End = 9000*ms, 9001*ms
		}, "to be visible within 10ms"},
		{commentary.SeenInTime, "an old page of the past", check.Broken, reply(8, `{"version":0,"comments":[]}`),
			"was shown version 0 from 90ms on, and 3 was acknowledged"},
		{commentary.SeenInTime, "an old page while a change is made", check.Held, func(e *evidence) {
			reply(8, `{"version":2,"comments":[`+out+`,`+six+`]}`)(e)
			e.Records[5].End = e.Records[8].Start
		}, ""},
		{commentary.SeenInTime, "nothing is shown, and the promises are not due", check.Undecided,
			func(e *evidence) {
				for i, v := range map[int]int{0: 1, 3: 2, 5: 3} {
					reply(i, fmt.Sprintf(`{"version":%d,"visible_within_ms":10000}`, v))(e)
				}
				e.Records[8].Start, e.Records[8].End = 5*time.Second, 5*time.Second+ms
				reply(8, `{"version":0,"comments":[]}`)(e)
			}, "had 0 of the 3 changes"},
		{commentary.SeenInTime, "what is new is not shown yet", check.Held, func(e *evidence) {
			for i, v := range map[int]int{3: 2, 5: 3} {
				reply(i, fmt.Sprintf(`{"version":%d,"visible_within_ms":10000}`, v))(e)
			}
			e.Records[8].Start, e.Records[8].End = 5*time.Second, 5*time.Second+ms
			reply(8, `{"version":1,"comments":[`+six+`]}`)(e)
		}, ""},
		{commentary.SeenInTime, "nobody looked", check.Undecided,
			without(commentary.KindLatest, commentary.KindPast), "nobody looked"},

		{commentary.PastWhole, "a gap", check.Broken, reply(8, `{"version":3,"comments":[`+four+`]}`),
			"number 1 is not"},
		{commentary.PastWhole, "the end is missing", check.Broken,
			reply(8, `{"version":3,"comments":[`+out+`]}`), "number 2 is not"},
		{commentary.PastWhole, "more than was asked for", check.Broken, func(e *evidence) {
			e.Records[8].Op = commentary.API().Op(commentary.KindPast,
				commentary.PastRequest{ID: 191, Match: 1, Before: 9, Most: 1})
		}, "is too much"},
		{commentary.PastWhole, "a version above all that may be", check.Broken,
			reply(8, `{"version":9223372036854775807,"comments":[]}`), "expected 0 to 9007199254740991"},
		{commentary.PastWhole, "an answer that is none", check.Broken, reply(8, "["), "cannot be read"},
		{commentary.PastWhole, "nobody read it", check.Undecided, without(commentary.KindPast),
			"nobody was shown older"},

		{commentary.Settled, "a page lacks one", check.Broken, func(e *evidence) {
			e.Audit.Pages[0].Comments = e.Audit.Pages[0].Comments[1:]
		}, "the page has 1 comments"},
		{commentary.Settled, "one cannot be read any more", check.Broken, func(e *evidence) {
			e.Audit.Past[0].Comments = e.Audit.Past[0].Comments[:1]
		}, "the whole match has 1 comments"},
		{commentary.Settled, "a page of an older version", check.Broken, func(e *evidence) {
			e.Audit.Pages[0].Version = 2
		}, "the page is of version 2"},
		{commentary.Settled, "no page", check.Broken, func(e *evidence) {
			e.Audit.Pages = e.Audit.Pages[:0]
		}, "and no page"},
		{commentary.Settled, "two pages", check.Broken, func(e *evidence) {
			e.Audit.Pages = append(e.Audit.Pages, e.Audit.Pages[0])
		}, "two rows of a page"},
		{commentary.Settled, "no pages", check.Undecided,
			func(e *evidence) { e.Audit.Pages = nil }, "no pages"},
	})
}
