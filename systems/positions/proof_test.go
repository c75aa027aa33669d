package positions_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"testing"
	"time"

	"stampede/harness/api"
	"stampede/harness/check"
	"stampede/harness/history"
	"stampede/harness/sut"
	"stampede/harness/suttest"
	"stampede/systems/positions"
)

// proof is what the judges of positions are proved by.
func proof() suttest.Proof[*evidence] {
	return suttest.Played(suttest.Proof[*evidence]{
		Unnoticed: map[string][]string{
			"no operation has a client": {"change client of ping", "change client of latest",
				"change client of track", "change client of erase"},
			"a read may be refused": {"deny latest", "deny track"},
			"a place that is named twice is the same one": {"double of places",
				"double of partial_places"},
		},
		Absent: map[string][]string{
			"none is refused":          {"invent erase"},
			"all answers are the same": {"exchange answers to erase"},
		},
	},
		positions.System(), fleet, anyFleet, 200, time.Second, newBook)
}

// TestJudges: the judges are sound, a smoke run decides all of them, and none is vacuous.
func TestJudges(t *testing.T) {
	suttest.Prove(t, proof(), 50, []suttest.Corruption[*evidence]{
		{Name: "a late ping is the newest position", Breaks: positions.NewestAsHistory,
			Do: func(e *evidence, pick func(int) int) bool {
				return suttest.Change(e.Audit.Newest, pick, func(r *positions.NewestRow) bool {
					return r.Seq > 1 && !erasing(e, r.Driver)
				}, func(row *positions.NewestRow) { row.Seq-- })
			}},
		{Name: "what is shown is frozen", Breaks: positions.ShownInTime,
			Do: func(e *evidence, _ func(int) int) bool {
				late := 0
				for i := range e.Records {
					r := &e.Records[i]
					switch {
					case r.Outcome != history.OK:
					case r.Op.Kind == positions.KindLatest && !erasing(e, driverOf(*r)):
						late += int(max(0, r.Reply.Value-9))
						r.Reply.Body = []byte(`{}`)
					case r.Op.Kind == positions.KindTrack:
						r.Reply.Body = []byte(`{"found":0,"points":[]}`)
					}
				}
				return late > 9
			}},
		{Name: "an erased driver is in the log", Breaks: positions.ErasedForGood,
			Do: func(e *evidence, pick func(int) int) bool {
				op := some(e, pick, positions.KindErase)
				if op == nil {
					return false
				}
				e.Audit.Copies = append(e.Audit.Copies, positions.CopyRow{Place: "log", Readable: 1,
					Driver: driverOf(*op)})
				return true
			}},
		{Name: "an object of the archive is lost", Breaks: positions.OthersUntouched,
			Do: func(e *evidence, pick func(int) int) bool {
				return suttest.Change(e.Audit.Copies, pick, func(r *positions.CopyRow) bool {
					return r.Place == "archive" && !erasing(e, r.Driver)
				}, func(row *positions.CopyRow) { row.Readable-- })
			}},
	})
}

// some is a record of a kind that was answered.
func some(e *evidence, pick func(int) int, kind string) *history.Record {
	return suttest.PickFrom(e.Records, pick, func(r *history.Record) bool {
		return r.Op.Kind == kind && r.Outcome == history.OK
	})
}

// driverOf is the driver of a record.
func driverOf(r history.Record) (driver uint64) {
	_, _ = fmt.Sscanf(r.Op.Key, "driver-%d", &driver)
	return driver
}

// erasing says whether a driver may have been erased.
func erasing(e *evidence, driver uint64) bool {
	return slices.ContainsFunc(e.Records, func(r history.Record) bool {
		return r.Op.Kind == positions.KindErase && driverOf(r) == driver
	})
}

// smallRun is a run that every invariant accepts. Driver 1 pings thrice and is looked at, driver 2
// twice, is looked at after each ping and erased, and looked at again, and by ten meanwhile.
func smallRun() *evidence {
	p := fleet()
	p.Drivers, p.FreshWithin = 2, sut.Duration(20*ms)
	b := newBook(nil, p)
	e := &evidence{System: positions.System(), P: p}
	do := func(op history.Op) {
		b.Do(op, func(reply history.Reply, err error) {
			start := 10 * ms * (1 + duration(len(e.Records)))
			rec := history.Record{Seq: uint64(len(e.Records)), Op: op, Reply: reply, Outcome: history.OK,
				Intended: start, Start: start, End: start + 5*ms}
			if err != nil {
				rec.Outcome, rec.Reply, rec.Code = history.Refused, history.Reply{}, "erased"
			}
			e.Records = append(e.Records, rec)
		})
	}
	load, err := positions.System().Workload(1, positions.Params{Drivers: 2, MoveAfter: 1,
		FlushEvery: 1e6, FreshWithin: 1e6, SessionTimeout: 1e9})
	if err != nil {
		panic(err)
	}
	read := func(id, driver uint64) {
		do(b.api.Op(positions.KindLatest, positions.DriverRequest{ID: id, Driver: driver}))
		do(b.api.Op(positions.KindTrack, positions.TrackRequest{ID: id + 1, Driver: driver, Most: 5}))
	}
	do(load.Op(0)) // record 0
	do(load.Op(1))
	read(33, 1) // 2 and 3
	read(65, 2)
	do(load.Op(2))                                                                // 6
	do(load.Op(4))                                                                // 7
	read(129, 1)                                                                  // 8 and 9
	do(load.Op(3))                                                                // 10
	read(70, 2)                                                                   // 11 and 12
	do(b.api.Op(positions.KindErase, positions.DriverRequest{ID: 67, Driver: 2})) // 13
	read(68, 2)                                                                   // 14 and 15
	for i := range uint64(10) {
		do(b.api.Op(positions.KindLatest, positions.DriverRequest{ID: 72 + i, Driver: 2}))
		last, erasure := &e.Records[len(e.Records)-1], e.Records[13]
		last.Intended, last.Start, last.End = erasure.Start, erasure.Start, erasure.End
	}
	e.Audit = b.Audit()
	return e
}

type duration = time.Duration

type clause suttest.Case[*evidence]

// TestClauses: each clause accepts what is right and refuses what is wrong.
func TestClauses(t *testing.T) {
	unread := func(e *evidence) { e.Audit.History[0].ID = 0 }
	body := func(record int, text string) func(*evidence) {
		return func(e *evidence) { e.Records[record].Reply.Body = []byte(text) }
	}
	powerLoss := func(from, to, recovered duration) func(*evidence) {
		return func(e *evidence) {
			e.Windows = []history.Window{{Kind: history.FaultWindow, Name: "loss", Start: from, End: to,
				Recovered: recovered, Fault: "power-loss redis", Evidence: []string{"it was off"}}}
			e.Records[8].Reply = e.Records[2].Reply
		}
	}
	// The erasure may not have happened, and nothing was read after it.
	unsure := func(e *evidence) {
		e.Records[13].Outcome, e.Records = history.Unknown, e.Records[:14]
	}
	suttest.Clauses(t, proof(), smallRun, []clause{
		{positions.AckedKept, "one is missing", check.Broken, func(e *evidence) {
			e.Audit.History = e.Audit.History[1:]
		}, "was acknowledged"},
		{positions.AckedKept, "one that may have been erased is there", check.Held, func(e *evidence) {
			unsure(e)
			e.Audit.History = append(e.Audit.History, row(e, 1))
		}, ""},
		{positions.AckedKept, "twice", check.Broken, func(e *evidence) {
			e.Audit.History = append(e.Audit.History, e.Audit.History[0])
		}, "there are"},
		{positions.AckedKept, "one that nobody sent", check.Broken, func(e *evidence) {
			e.Audit.History = append(e.Audit.History, positions.PingRow{ID: 999, Driver: 1, Seq: 9})
		}, "never requested"},
		{positions.AckedKept, "under the number of another", check.Broken, func(e *evidence) {
			rows := e.Audit.History
			rows[0].ID, rows[1].ID = rows[1].ID, rows[0].ID
		}, "is kept as number"},
		{positions.AckedKept, "elsewhere", check.Broken, func(e *evidence) { e.Audit.History[0].Lat++ },
			"and was sent as"},
		{positions.AckedKept, "the newest is elsewhere", check.Broken,
			func(e *evidence) { e.Audit.Newest[0].Lon++ }, "and was sent as"},
		{positions.AckedKept, "no history", check.Undecided, func(e *evidence) { e.Audit.History = nil },
			"no history"},
		{positions.AckedKept, "an audit that cannot be read", check.Undecided, unread, "history[0]"},

		{positions.NewestAsHistory, "an older one", check.Broken, func(e *evidence) {
			e.Audit.Newest[0] = shown(e.Audit.History[0])
		}, "is 1, and the history has 9"},
		{positions.NewestAsHistory, "a newer one", check.Broken, func(e *evidence) {
			e.Audit.Newest[0].Seq = 10
		}, "none after 9"},
		{positions.NewestAsHistory, "two", check.Broken, func(e *evidence) {
			e.Audit.Newest = append(e.Audit.Newest, e.Audit.Newest[0])
		}, "two newest"},
		{positions.NewestAsHistory, "one that may have been erased", check.Held, func(e *evidence) {
			unsure(e)
			e.Audit.Newest = append(e.Audit.Newest, shown(row(e, 1)))
		}, ""},
		{positions.NewestAsHistory, "none of a driver", check.Broken, func(e *evidence) {
			e.Audit.Newest = e.Audit.Newest[:0]
		}, "has no newest position"},
		{positions.NewestAsHistory, "no list", check.Undecided,
			func(e *evidence) { e.Audit.Newest = nil }, "no newest"},

		{positions.LatestNeverFalls, "it falls", check.Broken, func(e *evidence) {
			e.Records[2].Reply, e.Records[8].Reply = e.Records[8].Reply, e.Records[2].Reply
			e.Records[2].Start, e.Records[2].End = 90*ms, 91*ms
			e.Records[8].Start, e.Records[8].End = 95*ms, 96*ms
		}, "was shown at 9 until"},
		{positions.LatestNeverFalls, "both at the same time", check.Held, func(e *evidence) {
			e.Records[2].Reply, e.Records[8].Reply = e.Records[8].Reply, e.Records[2].Reply
			e.Records[2].Start, e.Records[2].End = 90*ms, 96*ms
			e.Records[8].Start, e.Records[8].End = 95*ms, 99*ms
		}, ""},
		{positions.LatestNeverFalls, "Redis lost its memory in between", check.Held,
			func(e *evidence) {
				powerLoss(92*ms, 93*ms, 94*ms)(e)
				falling(e)
			}, ""},
		{positions.LatestNeverFalls, "Redis lost it before both", check.Broken, func(e *evidence) {
			powerLoss(70*ms, 75*ms, 80*ms)(e)
			falling(e)
		}, "was shown at 9 until"},
		{positions.LatestNeverFalls, "shown before it was sent", check.Broken, func(e *evidence) {
			e.Records[2].Reply = e.Records[8].Reply
		}, "before that was sent"},
		{positions.LatestNeverFalls, "elsewhere", check.Broken,
			body(2, `{"seq":1,"lat_e7":1,"lon_e7":2}`), "was read at 1, 2"},
		{positions.LatestNeverFalls, "a track elsewhere", check.Broken,
			body(3, `{"found":1,"points":[{"seq":1,"lat_e7":1,"lon_e7":2}]}`), "was read at 1, 2"},
		{positions.LatestNeverFalls, "a track without a number", check.Broken,
			body(3, `{"found":1,"points":[{"seq":0,"lat_e7":1,"lon_e7":2}]}`), "without a number"},
		{positions.LatestNeverFalls, "a track in no order", check.Broken, func(e *evidence) {
			var track positions.Track
			_ = json.Unmarshal(e.Records[9].Reply.Body, &track)
			slices.Reverse(track.Points)
			e.Records[9].Reply.Body, _ = json.Marshal(track)
		}, "comes after"},
		{positions.LatestNeverFalls, "it never rises", check.Undecided, func(e *evidence) {
			e.Records[8].Reply, e.Records[11].Reply = e.Records[2].Reply, e.Records[4].Reply
		}, "nobody was shown a newer position"},
		{positions.LatestNeverFalls, "all tracks are empty", check.Undecided, func(e *evidence) {
			for _, i := range []int{3, 5, 9, 12} {
				body(i, `{"found":0,"points":[]}`)(e)
			}
		}, "no track had a position"},
		{positions.LatestNeverFalls, "no track is read", check.Held, func(e *evidence) {
			e.Records = slices.DeleteFunc(e.Records, func(r history.Record) bool {
				return r.Op.Kind == positions.KindTrack
			})
		}, ""},
		{positions.LatestNeverFalls, "a track falls", check.Broken, func(e *evidence) {
			e.Records[12].Reply.Body = []byte(`{"found":0,"points":[]}`)
		}, "lacks position 1"},
		{positions.LatestNeverFalls, "a track has a gap where there was none", check.Broken, gap(5),
			"lacks position 1"},
		{positions.LatestNeverFalls, "a track has the newest ones only", check.Held, gap(1), ""},
		{positions.LatestNeverFalls, "a track was read while another one was", check.Held,
			func(e *evidence) {
				gap(5)(e)
				e.Records[3].End = e.Records[9].Start
			}, ""},
		{positions.LatestNeverFalls, "a track has more than was asked for", check.Broken,
			func(e *evidence) { asked(e, 9, 2) }, "3 positions is said to have 3, of 2"},
		{positions.LatestNeverFalls, "what is no reply", check.Broken, body(2, `[`), "cannot be read"},
		{positions.LatestNeverFalls, "nothing was read", check.Undecided, func(e *evidence) {
			e.Records = slices.DeleteFunc(e.Records, func(r history.Record) bool {
				return r.Op.Kind == positions.KindLatest
			})
		}, "no position was shown"},

		{positions.ShownInTime, "an old position", check.Broken, body(8, `{}`),
			"driver-1 was shown at 0 from 90ms on, without ping 1, acknowledged 75ms before"},
		{positions.ShownInTime, "an empty track", check.Broken, body(9, `{"found":0,"points":[]}`),
			"driver-1 was shown at 0 from 100ms on"},
		{positions.ShownInTime, "a track with a gap", check.Broken, gap(5), "without ping 1"},
		{positions.ShownInTime, "a full track", check.Held, gap(1), ""},
		{positions.ShownInTime, "one that is not due", check.Held, body(8, string(
			smallRun().Records[2].Reply.Body)), ""},
		{positions.ShownInTime, "old ones in a fault", check.Undecided, func(e *evidence) {
			powerLoss(10*ms, 11*ms, 12*ms)(e)
			body(8, `{}`)(e)
		}, "nobody asked where a driver was 25ms after a ping, outside faults"},
		{positions.ShownInTime, "it may have been erased", check.Held, func(e *evidence) {
			body(11, `{}`)(e)
			body(12, `{"found":0,"points":[]}`)(e)
			e.Records[13].Start = e.Records[11].End
		}, ""},

		{positions.ErasedForGood, "it may have been erased", check.Undecided, func(e *evidence) {
			unsure(e)
			e.Audit.History = append(e.Audit.History, row(e, 1))
		}, "no driver was erased"},
		{positions.ErasedForGood, "read afterwards", check.Broken, func(e *evidence) {
			e.Records[14].Outcome, e.Records[14].Reply = history.OK, e.Records[4].Reply
		}, "and was erased at"},
		{positions.ErasedForGood, "a track read afterwards", check.Broken, func(e *evidence) {
			e.Records[15].Outcome, e.Records[15].Reply = history.OK, e.Records[5].Reply
		}, "and was erased at"},
		{positions.ErasedForGood, "read afterwards without a number", check.Broken, func(e *evidence) {
			e.Records[14].Outcome = history.OK
			at := row(e, 1)
			body(14, fmt.Sprintf(`{"seq":0,"lat_e7":%d,"lon_e7":%d}`, at.Lat, at.Lon))(e)
		}, "and was erased at"},
		{positions.ErasedForGood, "somewhere afterwards", check.Held, func(e *evidence) {
			e.Records[14].Outcome = history.OK
			body(14, `{"seq":0,"lat_e7":1,"lon_e7":2}`)(e)
		}, ""},
		{positions.ErasedForGood, "nobody came meanwhile", check.Undecided, func(e *evidence) {
			e.Records = e.Records[:17]
		}, "1 operations overlapped an erasure of their driver; at least 10"},
		{positions.ErasedForGood, "read meanwhile", check.Held, func(e *evidence) {
			e.Records[14].Outcome, e.Records[14].Reply = history.OK, e.Records[4].Reply
			e.Records[14].Start = e.Records[13].End
		}, ""},
		{positions.ErasedForGood, "in the history", check.Broken, func(e *evidence) {
			e.Audit.History = append(e.Audit.History, row(e, 1))
		}, "can be read in the history"},
		{positions.ErasedForGood, "in the archive", check.Broken, func(e *evidence) {
			e.Audit.Copies = append(e.Audit.Copies, positions.CopyRow{Place: "archive", Driver: 2,
				Readable: 1})
		}, "can be read in the archive"},

		{positions.ErasedForGood, "in a dead letter", check.Broken, func(e *evidence) {
			e.Audit.Copies = append(e.Audit.Copies, positions.CopyRow{Place: "letters", Driver: 2,
				Readable: 1})
		}, "can be read in the letters"},

		{positions.OthersUntouched, "less in the log", check.Broken, func(e *evidence) {
			copied(e, "log").Readable--
		}, "2 positions of driver-1 can be read in the log, and 3 in the history"},
		{positions.OthersUntouched, "more dead letters than pings", check.Broken, func(e *evidence) {
			copied(e, "letters").Readable = 4
		}, "4 positions of driver-1 can be read in the letters, and 3 in the history"},
		{positions.OthersUntouched, "nothing can be read of dead letters", check.Undecided,
			func(e *evidence) { copied(e, "letters").Readable = 0 }, "of a driver who was not erased"},
		{positions.OthersUntouched, "a place that is none", check.Broken, func(e *evidence) {
			copied(e, "log").Place = "attic"
		}, "none of its places"},
		{positions.OthersUntouched, "refused as erased", check.Broken, func(e *evidence) {
			e.Records[8].Outcome, e.Records[8].Code = history.Refused, "erased"
		}, "was treated as erased"},
		{positions.OthersUntouched, "refused as unknown", check.Broken, func(e *evidence) {
			e.Records[7].Outcome, e.Records[7].Code = history.Refused, "unknown_driver"
		}, "was treated as erased or unknown"},
		{positions.OthersUntouched, "refused as unknown once it was erased", check.Held,
			func(e *evidence) { e.Records[14].Code = "unknown_driver" }, ""},
		{positions.OthersUntouched, "nobody is left", check.Undecided, func(e *evidence) {
			e.Records = e.Records[1:2]
			e.Audit.History, e.Audit.Copies = e.Audit.History[:0], e.Audit.Copies[:0]
		}, "no driver was left"},
		{positions.OthersUntouched, "no further places", check.Held, func(e *evidence) {
			e.Audit.Places, e.Audit.Copies, e.Audit.Partial = []string{}, []positions.CopyRow{}, nil
		}, ""},
		{positions.OthersUntouched, "no copies", check.Undecided,
			func(e *evidence) { e.Audit.Copies, e.Audit.Places = nil, nil }, "no copies"},
	})
}

// asked is how many positions a track was asked for.
func asked(e *evidence, record, most int) {
	req, err := api.RequestOf[positions.TrackRequest](positions.API(), e.Records[record].Op)
	if err != nil {
		panic(err)
	}
	req.Most = most
	e.Records[record].Op = positions.API().Op(positions.KindTrack, req)
}

// gap leaves the newest position in the second track of driver 1, which was asked for so many.
func gap(most int) func(*evidence) {
	return func(e *evidence) {
		var track positions.Track
		_ = json.Unmarshal(e.Records[9].Reply.Body, &track)
		track.Found, track.Points = 1, track.Points[:1]
		e.Records[9].Reply.Body, _ = json.Marshal(track)
		asked(e, 9, most)
	}
}

// copied is what a place has of the first driver.
func copied(e *evidence, place string) *positions.CopyRow {
	i := slices.IndexFunc(e.Audit.Copies, func(c positions.CopyRow) bool { return c.Place == place })
	return &e.Audit.Copies[i]
}

// row is the position of a record.
func row(e *evidence, record int) positions.PingRow {
	req, err := api.RequestOf[positions.PingRequest](positions.API(), e.Records[record].Op)
	if err != nil {
		panic(err)
	}
	return positions.PingRow(req)
}

// falling reads the newest position of driver 1 at 90 ms, and an older one at 95.
func falling(e *evidence) {
	old := smallRun()
	e.Records[2].Reply, e.Records[8].Reply = old.Records[8].Reply, old.Records[2].Reply
	e.Records[2].Start, e.Records[2].End = 90*ms, 91*ms
	e.Records[8].Start, e.Records[8].End = 95*ms, 96*ms
}
