package textsearch_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"testing"
	"time"

	"stampede/harness/check"
	"stampede/harness/history"
	"stampede/harness/sut"
	"stampede/harness/suttest"
	"stampede/systems/textsearch"
	"stampede/systems/textsearch/analysis"
)

// proof is what the judges of textsearch are proved by.
func proof() suttest.Proof[*evidence] {
	return suttest.Played(suttest.Proof[*evidence]{
		Unnoticed: map[string][]string{
			"every client is shown the newest generation": {"change client of index",
				"change client of delete", "change client of search"},
			"a search may be refused": {"deny search"},
			"what is said twice is said": {"double of finds", "double of finds.frequencies",
				"double frequencies in answers to search"},
			"any promise within the bounds may be made": {"raise visible_within_ms in answers to index",
				"raise visible_within_ms in answers to delete"},
			"memory has what is in no segment": {"drop of segments", "lower documents of segments"},
			"a segment's name and size are its own": {"raise id of segments", "lower id of segments",
				"raise bytes of segments", "lower bytes of segments", "exchange bytes of segments",
				"exchange documents of segments", "exchange id of segments"},
		},
		Absent: map[string][]string{
			"none is refused": {"invent index", "invent search"},
			"in the end all is of one generation": {"exchange generation of finds",
				"exchange documents of finds", "exchange mean_length of finds"},
		},
	},
		textsearch.System(), crowd, anyCrowd, 150, 2*time.Second, newShelf)
}

// TestJudges: the judges are sound, a smoke run decides all of them, and none is vacuous.
func TestJudges(t *testing.T) {
	suttest.Prove(t, proof(), 50, []suttest.Corruption[*evidence]{
		{Name: "what is deleted is found", Breaks: textsearch.GoneForGood, Do: undelete},
	})
}

// undelete finds a version in the end whose document is deleted.
func undelete(e *evidence, pick func(int) int) bool {
	gone := suttest.PickFrom(e.Audit.Log, pick, func(r *textsearch.LogRow) bool {
		return !r.Deleted && slices.ContainsFunc(e.Audit.Log, func(b textsearch.LogRow) bool {
			return b.Doc == r.Doc && b.Deleted && b.Seq > r.Seq
		}) && !slices.ContainsFunc(e.Audit.Documents, func(d textsearch.DocRow) bool {
			return d.Doc == r.Doc
		})
	})
	f := suttest.PickFrom(e.Audit.Finds, pick, func(*textsearch.FindRow) bool { return true })
	if gone == nil || f == nil {
		return false
	}
	f.Hits = append(f.Hits, textsearch.Hit{Doc: gone.Doc, Version: gone.Version})
	return true
}

// smallRun is a run that every invariant accepts. Document 1 is indexed, replaced and deleted, and
// 2 to 5 are indexed, of which 3 and 4 are alike; clients look at them.
func smallRun() *evidence {
	e := &evidence{System: textsearch.System(), P: crowd()}
	s := newShelf(nil, nil)
	do := func(kind string, request any) {
		op := s.api.Op(kind, request)
		start := 10 * ms * time.Duration(1+len(e.Records))
		s.Do(op, func(reply history.Reply, err error) {
			r := history.Record{Seq: uint64(len(e.Records)), Op: op, Reply: reply, Outcome: history.OK,
				Intended: start, Start: start, End: start + 5*ms}
			if err != nil {
				r.Outcome, r.Code, r.Err = history.Refused, sut.Code(err), err.Error()
			}
			e.Records = append(e.Records, r)
		})
	}
	put := func(doc, version uint64, title, body string) {
		do(textsearch.KindIndex, textsearch.IndexRequest{Doc: doc, Version: version, Client: 1,
			Text: analysis.Text{Title: title, Body: body}})
	}
	look := func(id uint64, q string, mode analysis.Mode, n int) {
		do(textsearch.KindSearch, textsearch.SearchRequest{ID: id, Client: 1, Query: q, Mode: mode,
			Most: n})
	}
	put(1, 16, "green garden m16", "a quiet place") // record 0, change 1
	put(2, 32, "blue garden m32", "a bridge over quiet water")
	put(3, 48, "red river m48", "stone bridge")
	put(4, 64, "red river m64", "stone bridge")
	put(1, 80, "green house m80", "a quiet place by the river") // 4, change 5
	look(96, "garden", analysis.And, 10)                        // 5: document 2
	look(112, "quiet water", analysis.Phrase, 10)
	look(128, "stone bri", analysis.Prefix, 10) // 7: 3 and 4
	look(144, "rivver", analysis.And, 1)        // 8: 3; not 4, which is as good, and 1

	do(textsearch.KindDelete, // 9, change 6
		textsearch.DeleteRequest{Doc: 1, Version: 160, Client: 1})
	look(176, "m80", analysis.And, 10) // 10: nothing
	put(1, 81, "too late", "")         // 11: refused
	put(5, 208, "yellow m208", "")     // 12, change 7

	e.Records[5].Start = e.Records[4].End - ms // they overlap
	e.Audit = s.Audit()
	return e
}

// ofTheEnd is what is found in the end.
func ofTheEnd(e *evidence, query string, most int) *textsearch.FindRow {
	i := slices.IndexFunc(e.Audit.Finds, func(f textsearch.FindRow) bool {
		return f.Query == query && f.Most == most
	})
	return &e.Audit.Finds[i]
}

type clause suttest.Case[*evidence]

// TestClauses: each clause accepts what is right and refuses what is wrong.
func TestClauses(t *testing.T) {
	found := func(record int, change func(*textsearch.Found)) func(*evidence) {
		return func(e *evidence) {
			var f textsearch.Found
			if err := json.Unmarshal(e.Records[record].Reply.Body, &f); err != nil {
				t.Fatal(err)
			}
			change(&f)
			e.Records[record].Reply.Body, _ = json.Marshal(f)
		}
	}
	hits := func(record int, list ...textsearch.Hit) func(*evidence) {
		return found(record, func(f *textsearch.Found) { f.Hits = list })
	}
	without := func(records ...int) func(*evidence) {
		return func(e *evidence) {
			for _, i := range slices.Backward(records) {
				e.Records = slices.Delete(e.Records, i, i+1)
			}
		}
	}
	own := func(e *evidence) { e.Audit.Scoring = "own" }
	alike := func(e *evidence) {
		own(e)
		hits(7, textsearch.Hit{Doc: 4, Version: 64, Score: 7},
			textsearch.Hit{Doc: 3, Version: 48, Score: 7})(e)
	}
	suttest.Clauses(t, proof(), smallRun, []clause{
		{textsearch.ChangesKept, "one is missing", check.Broken, func(e *evidence) {
			e.Audit.Log = e.Audit.Log[1:]
		}, "was acknowledged"},
		{textsearch.ChangesKept, "nobody asked", check.Broken, func(e *evidence) {
			e.Audit.Log[2].Version = 999
		}, "999"},
		{textsearch.ChangesKept, "one of unknown outcome is there", check.Held, func(e *evidence) {
			e.Records[1].Outcome, e.Records[1].End = history.Unknown, history.Never
		}, ""},
		{textsearch.ChangesKept, "another number", check.Broken, func(e *evidence) {
			e.Audit.Log[6].Seq = 8
		}, "acknowledged as change 7"},
		{textsearch.ChangesKept, "a lower number than before", check.Broken, func(e *evidence) {
			e.Audit.Log[0].Seq, e.Audit.Log[1].Seq = 2, 1
			e.Records[0].Reply.Body = []byte(`{"seq":2,"visible_within_ms":0}`)
			e.Records[1].Reply.Body = []byte(`{"seq":1,"visible_within_ms":0}`)
		}, "has version 1, and one"},
		{textsearch.ChangesKept, "an older version later", check.Broken, func(e *evidence) {
			e.Audit.Log[0].Seq, e.Audit.Log[4].Seq = 5, 1
		}, "document 1"},
		{textsearch.ChangesKept, "a deletion that was none", check.Broken, func(e *evidence) {
			e.Audit.Log[1].Deleted = true
		}, "the wrong kind"},
		{textsearch.ChangesKept, "refused for nothing", check.Broken, func(e *evidence) {
			e.Records[11].Op = textsearch.API().Op(textsearch.KindIndex,
				textsearch.IndexRequest{Doc: 2, Version: 192, Client: 1})
		}, "there was none"},
		{textsearch.ChangesKept, "refused because of a later one", check.Broken, func(e *evidence) {
			e.Records[9].Start, e.Records[9].End = 900*ms, 905*ms
		}, "version 81 was refused"},
		{textsearch.ChangesKept, "a promise that is never due", check.Broken, func(e *evidence) {
			e.Records[0].Reply.Body = []byte(`{"seq":1,"visible_within_ms":10001}`)
		}, "expected 0 to 10000"},
		{textsearch.ChangesKept, "lost in the end", check.Broken, func(e *evidence) {
			e.Audit.Documents = e.Audit.Documents[1:]
		}, "is not there"},
		{textsearch.ChangesKept, "back in the end", check.Broken, func(e *evidence) {
			e.Audit.Documents = append(e.Audit.Documents, textsearch.DocRow{Doc: 1, Version: 80})
		}, "does not follow from the log"},
		{textsearch.ChangesKept, "there twice", check.Broken, func(e *evidence) {
			e.Audit.Documents = append(e.Audit.Documents, e.Audit.Documents[0])
		}, "is there twice"},
		{textsearch.ChangesKept, "an end that is none", check.Broken, func(e *evidence) {
			e.Audit.Generation = 6
		}, "the log ends at 7"},
		{textsearch.ChangesKept, "nobody searched in the end", check.Broken, func(e *evidence) {
			e.Audit.Finds = e.Audit.Finds[1:]
		}, "nothing is said"},
		{textsearch.ChangesKept, "an old index in the end", check.Broken, func(e *evidence) {
			e.Audit.Finds[0].Generation--
		}, "is of generation"},
		{textsearch.ChangesKept, "no log", check.Undecided, func(e *evidence) { e.Audit.Log = nil },
			"no log"},

		{textsearch.OneGeneration, "an older generation, as it was", check.Held,
			found(5, func(f *textsearch.Found) {
				f.Generation, f.Hits = 1, []textsearch.Hit{{Doc: 1, Version: 16, Score: 1}}
			}), ""},
		{textsearch.OneGeneration, "a version that was replaced", check.Broken,
			hits(5, textsearch.Hit{Doc: 2, Version: 32}, textsearch.Hit{Doc: 1, Version: 16}),
			"replaced by change 5"},
		{textsearch.OneGeneration, "a version of later", check.Broken,
			hits(5, textsearch.Hit{Doc: 2, Version: 32}, textsearch.Hit{Doc: 5, Version: 208}),
			"which is of change 7"},
		{textsearch.OneGeneration, "a version of another", check.Broken,
			hits(5, textsearch.Hit{Doc: 2, Version: 32}, textsearch.Hit{Doc: 3, Version: 64}),
			"it never had"},
		{textsearch.OneGeneration, "one is missing", check.Broken,
			hits(7, textsearch.Hit{Doc: 4, Version: 64, Score: 1}), "was not found"},
		{textsearch.OneGeneration, "of a number that is no change's", check.Held, func(e *evidence) {
			found(10, func(f *textsearch.Found) { f.Generation = 7 })(e)
			e.Audit.Log[6].Seq = 8
			for i := range e.Audit.Finds {
				e.Audit.Finds[i].Generation = 9
			}
		}, ""},
		{textsearch.OneGeneration, "before it was asked for", check.Broken,
			found(10, func(f *textsearch.Found) { f.Generation = 9 }), "change 7 was only asked for at"},
		{textsearch.OneGeneration, "the end lacks one", check.Broken, func(e *evidence) {
			e.Audit.Finds[0].Hits = []textsearch.Hit{}
		}, "in the end"},
		{textsearch.OneGeneration, "nothing overlaps", check.Undecided, func(e *evidence) {
			e.Records[5].Start = e.Records[5].End - ms
		}, "while documents changed"},

		{textsearch.GoneForGood, "it is still there", check.Broken,
			hits(10, textsearch.Hit{Doc: 1, Version: 80}), "is deleted"},
		{textsearch.GoneForGood, "an older version of it", check.Broken,
			hits(10, textsearch.Hit{Doc: 1, Version: 16}), "is deleted"},
		{textsearch.GoneForGood, "a look from before", check.Held, found(10, func(f *textsearch.Found) {
			f.Generation, f.Hits = 5, []textsearch.Hit{{Doc: 1, Version: 80}}
		}), ""},
		{textsearch.GoneForGood, "back in the end", check.Broken, func(e *evidence) {
			e.Audit.Finds[1].Hits = []textsearch.Hit{{Doc: 1, Version: 80}}
		}, "in the end"},
		{textsearch.GoneForGood, "nobody searched for it", check.Undecided, func(e *evidence) {
			e.Records, e.Audit.Finds = slices.Delete(e.Records, 10, 11), []textsearch.FindRow{}
		}, "what had been deleted"},

		{textsearch.HitsMatch, "another document", check.Broken,
			hits(5, textsearch.Hit{Doc: 3, Version: 48}), "does not match"},
		{textsearch.HitsMatch, "both words, but not beside each other", check.Broken, func(e *evidence) {
			e.Records[6].Op = textsearch.API().Op(textsearch.KindSearch, textsearch.SearchRequest{ID: 112,
				Client: 1, Query: "bridge water", Mode: analysis.Phrase, Most: 10})
		}, "does not match"},
		{textsearch.HitsMatch, "twice", check.Broken,
			hits(5, textsearch.Hit{Doc: 2, Version: 32}, textsearch.Hit{Doc: 2, Version: 32}), "twice"},
		{textsearch.HitsMatch, "too many", check.Broken, hits(8, textsearch.Hit{Doc: 3, Version: 48},
			textsearch.Hit{Doc: 4, Version: 64}), "1 were asked for"},
		{textsearch.HitsMatch, "an answer that is none", check.Broken, func(e *evidence) {
			e.Records[5].Reply.Body = []byte("[")
		}, "cannot be read"},
		{textsearch.HitsMatch, "no phrase", check.Undecided, without(6), "no phrase"},

		{textsearch.Ranked, "own scores in any measure", check.Held, func(e *evidence) {
			alike(e)
			ofTheEnd(e, "red", 10).Hits[0].Score *= 2
		}, "in its own way"},
		{textsearch.Ranked, "own scores that are all the same", check.Undecided, alike,
			"told two documents apart"},
		{textsearch.Ranked, "own scores that rise", check.Broken, func(e *evidence) {
			own(e)
			hits(7, textsearch.Hit{Doc: 4, Version: 64, Score: 7},
				textsearch.Hit{Doc: 3, Version: 48, Score: 8})(e)
		}, "comes after"},
		{textsearch.Ranked, "equal ones in another order", check.Broken,
			found(7, func(f *textsearch.Found) { slices.Reverse(f.Hits) }), "comes after"},
		{textsearch.Ranked, "a score is another one", check.Broken,
			found(5, func(f *textsearch.Found) { f.Hits[0].Score *= 1.001 }), "should have"},
		{textsearch.Ranked, "the second of two that are equal", check.Broken,
			found(8, func(f *textsearch.Found) { f.Hits[0].Doc, f.Hits[0].Version = 4, 64 }),
			"was not found, and 4"},
		{textsearch.Ranked, "a frequency of what is long gone", check.Broken, func(e *evidence) {
			e.Audit.Gone = 0
			f := ofTheEnd(e, "green", 10)
			f.Frequencies = []textsearch.Frequency{{Term: "green", Documents: 2}}
		}, "is in 0 documents, or 0"},
		{textsearch.Ranked, "and of what may still count", check.Held, func(e *evidence) {
			f := ofTheEnd(e, "green", 10)
			f.Frequencies = []textsearch.Frequency{{Term: "green", Documents: 2}}
		}, ""},
		{textsearch.Ranked, "own scores that are not the highest", check.Broken, func(e *evidence) {
			own(e)
			more := ofTheEnd(e, "red", 100)
			more.Hits[0].Score *= 2
		}, "are not the highest"},
		{textsearch.Ranked, "nothing was left out", check.Undecided, without(8), "equal scores"},

		{textsearch.NeverBack, "a change that was acknowledged is missing", check.Broken,
			found(10, func(f *textsearch.Found) { f.Generation = 5 }), "acknowledged"},
		{textsearch.NeverBack, "it was promised for later", check.Held, func(e *evidence) {
			e.Records[9].Reply.Body = []byte(`{"seq":6,"visible_within_ms":10000}`)
			found(10, func(f *textsearch.Found) { f.Generation = 5 })(e)
		}, ""},
		{textsearch.NeverBack, "nothing is found, and nothing is due", check.Undecided,
			func(e *evidence) {
				for i, n := range map[int]int{0: 1, 1: 2, 2: 3, 3: 4, 4: 5, 9: 6, 12: 7} {
					e.Records[i].Reply.Body = fmt.Appendf(nil, `{"seq":%d,"visible_within_ms":10000}`, n)
				}
				e.Records[10].Op = textsearch.API().Op(textsearch.KindSearch, textsearch.SearchRequest{ID: 176,
					Client: 2, Query: "m80", Mode: analysis.And, Most: 10})
				found(10, func(f *textsearch.Found) { f.Generation = 0 })(e)
				e.Records[10].Start, e.Records[10].End = 6*time.Second, 6*time.Second+ms
			}, "had 0 of the 7 changes"},
		{textsearch.NeverBack, "one goes back", check.Broken, func(e *evidence) {
			for _, i := range []int{0, 1, 2, 3, 4, 9} {
				e.Records[i].Outcome, e.Records[i].End = history.Unknown, history.Never
			}
			found(7, func(f *textsearch.Found) { f.Generation = 4 })(e)
		}, "client 1"},
		{textsearch.NeverBack, "nobody searched", check.Undecided, without(5, 6, 7, 8, 10), "searched"},

		{textsearch.SegmentsWhole, "one is not", check.Broken, func(e *evidence) {
			e.Audit.Segments[0].Whole = false
		}, "is not whole"},
		{textsearch.SegmentsWhole, "twice", check.Broken, func(e *evidence) {
			e.Audit.Segments[0].ID = e.Audit.Segments[1].ID
		}, "is there twice"},
		{textsearch.SegmentsWhole, "more than there are", check.Broken, func(e *evidence) {
			e.Audit.Segments[0].Documents = 50
		}, "and there are 4"},
		{textsearch.SegmentsWhole, "none", check.Undecided, func(e *evidence) {
			e.Audit.Segments = nil
		}, "no segment"},
	})
}
