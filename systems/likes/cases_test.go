package likes

import (
	"slices"
	"time"

	"stampede/harness/history"
	"stampede/harness/suttest"
)

// all makes changes one after the other.
func all(changes ...func(*evidence)) func(*evidence) {
	return func(e *evidence) {
		for _, change := range changes {
			change(e)
		}
	}
}

// unknown makes the outcome of an operation unknown.
func unknown(id uint64) func(*evidence) { return func(e *evidence) { e.unknown(id) } }

// fault adds a fault.
func fault(text string, start, end time.Duration) func(*evidence) {
	return func(e *evidence) { e.fault(text, start, end) }
}

// buffered declares the loss of one interaction and adds faults at the same moment.
func buffered(faults ...string) func(*evidence) {
	return func(e *evidence) {
		e.audit.Contract.LossBound = 1
		for _, text := range faults {
			e.fault(text, 500*ms, 600*ms)
		}
	}
}

// early acknowledges before the log has it.
func early(e *evidence) { e.audit.Contract.Ack = AckBuffer }

func countCases() []verdictCase {
	const inv, three = CountInBounds, "3 to 3 are possible"
	read := func(n int64) func(*evidence) {
		return func(e *evidence) { e.op(272).Reply.Value = n }
	}
	stale := func(d time.Duration) func(*evidence) {
		return func(e *evidence) { e.audit.Contract.StalenessNS = int64(d) }
	}
	return []verdictCase{
		{inv, "more than ever liked - fail", fail, read(4),
			"video-1: read 4 between 250ms and 260ms, 3 to 3 are possible"},
		{inv, "fewer than acknowledged - fail", fail, read(2), three},
		{inv, "a like of unknown outcome counts - pass", pass, unknown(1024), ""},
		{inv, "or it does not - pass", pass, all(unknown(1024), read(2)), ""},
		{inv, "a refused like counts - fail", fail, func(e *evidence) {
			e.op(1024).Outcome = history.Refused
		}, "2 to 2 are possible"},
		{inv, "a repeated like counts - fail", fail, func(e *evidence) {
			e.forget(1024)
		}, "2 to 2 are possible"},
		{inv, "stale as declared - pass", pass, all(stale(100*ms), read(2)), ""},
		{inv, "staler than declared - fail", fail, all(stale(30*ms), read(2)), three},
		{inv, "the other region is behind - pass", pass, all(regions, read(2)), ""}, // without user 2
		{inv, "the own region is behind - fail", fail, all(regions, read(1)), "2 to 3 are possible"},
		{inv, "the other region is ahead - fail", fail, all(regions, read(4)), "2 to 3 are possible"},
		{inv, "the other region before it took back - pass", pass, func(e *evidence) {
			regions(e)
			e.do(513, KindUnlike, 1, 2, 120*ms, 1)
		}, ""},
		{inv, "fewer than a broken buffer acknowledged - pass", pass,
			all(read(2), early, buffered("pause api", "kill redis wipe")),
			"7 acknowledged interactions count as unknown"},
		{inv, "fewer, and the server was well - fail", fail,
			all(read(2), early, buffered("pause kafka", "kill redis wipe")), three},
		{inv, "fewer, and Redis kept its data - fail", fail,
			all(read(2), early, buffered("pause api", "kill redis")), three},
		{inv, "fewer than were acknowledged long before - fail", fail,
			all(read(2), early, fault("pause api", 10*time.Second, 11*time.Second),
				fault("kill redis wipe", 10*time.Second, 11*time.Second)), three},
		{inv, "fewer than the log acknowledged - fail", fail,
			all(read(2), buffered("pause api", "kill redis wipe")), three},
		{inv, "stale enough for every read - undecided", maybe, all(stale(time.Second), read(0)),
			"the declared staleness excuses every count"},
		{inv, "reads that failed - undecided", maybe, all(unknown(272), unknown(273)),
			"no count was read"},
		{inv, "a contract that allows everything - undecided", maybe, stale(time.Hour), "staleness_ns"},
	}
}

// regions makes it two: users 1 and 3 are at home in one, 2 in the other.
func regions(e *evidence) {
	e.audit.Contract.Regions = 2
	for i := range e.audit.Videos {
		v := &e.audit.Videos[i]
		v.Counts = append(v.Counts, v.Counts[0])
	}
}

// forget removes the records of an operation.
func (e *evidence) forget(id uint64) {
	e.records = slices.DeleteFunc(e.records, func(r history.Record) bool { return r.Op.ID == id })
}

func pairCases() []verdictCase {
	const inv = OneLike
	return []verdictCase{
		{inv, "both clicks changed something - fail", fail, func(e *evidence) {
			e.op(768).Reply.Value = 1
		}, "no order of the user's interactions explains the replies: like at 100ms (changed)"},
		{inv, "the other click was first - pass", pass, func(e *evidence) {
			e.op(768).Reply.Value, e.op(512).Reply.Value = 1, 0
		}, ""},
		{inv, "a video that exists is unknown - fail", fail, func(e *evidence) {
			suttest.Deny(e.op(768), ErrUnknownVideo)
		}, "as if there were no such thing"},
		{inv, "nothing was acknowledged again - undecided", maybe, func(e *evidence) {
			e.again().Outcome, e.again().Code = history.Refused, "overloaded"
		}, "no interaction was acknowledged again when it was sent again"},
		{inv, "nothing is sent again - pass", pass, func(e *evidence) {
			e.again().Outcome, e.again().Code = history.Refused, "overloaded"
			e.params.Resend = 0
		}, ""},
		{inv, "every unlike is refused - undecided", maybe, func(e *evidence) {
			e.op(1025).Outcome, e.video(1).Members = history.Refused, Packed{1, 2, 3}
		}, "every unlike was refused"},
		{inv, "the later click was first - fail", fail, func(e *evidence) {
			e.op(768).Start, e.op(768).End = 111*ms, 120*ms
			e.op(768).Reply.Value, e.op(512).Reply.Value = 1, 0
		}, "no order"},
		{inv, "neither click changed anything - fail", fail, func(e *evidence) {
			e.op(512).Reply.Value = 0
		}, "no order"},
		{inv, "likes it although taken back - not finished", fail, func(e *evidence) {
			e.video(1).Members = Packed{1, 2, 3}
		}, "user-3 and video-1: at the end the user likes it"},
		{inv, "does not like it although acknowledged - not finished", fail, func(e *evidence) {
			e.video(1).Members = Packed{2}
		}, "user-1 and video-1: at the end the user does not like it"},
		{inv, "lost with a server's buffer and Redis - pass", pass, func(e *evidence) {
			e.video(1).Members, e.video(1).Counts[0] = Packed{2}, 1
			all(early, buffered("kill api", "kill redis wipe"))(e)
		}, ""},
		{inv, "an unlike of unknown outcome took effect - pass", pass, unknown(1025), ""},
		{inv, "or it did not - pass", pass, func(e *evidence) {
			e.unknown(1025)
			e.video(1).Members = Packed{1, 2, 3}
		}, ""},
		{inv, "a lost like took effect after the unlike - pass", pass, func(e *evidence) {
			e.op(1024).Outcome, e.op(1024).End = history.Unknown, history.Never
			e.op(1025).Reply.Value = 0
			e.video(1).Members = Packed{1, 2, 3}
		}, ""},
		{inv, "an unlike of nothing changed something - fail", fail, func(e *evidence) {
			e.op(1024).Outcome = history.Refused
		}, "no order"},
		{inv, "more likes than members - not finished", fail, counter(3),
			"3 likes are counted at the end, but 2 users"},
		{inv, "fewer likes than members - pass", pass, counter(1), ""}, // which stores-agree judges
		{inv, "nobody did anything twice - undecided", maybe, func(e *evidence) {
			e.forget(768)
			e.forget(1025)
			e.video(1).Members = Packed{1, 2, 3}
		}, "no user had more than one interaction"},
	}
}

// counter sets what is counted of video 1.
func counter(n int64) func(*evidence) {
	return func(e *evidence) { e.video(1).Counts[0] = n }
}

// logged has the ledger have just these interactions.
func logged(ops ...uint64) func(*evidence) {
	return func(e *evidence) { e.audit.Logged = ops }
}

func storeCases() []verdictCase {
	const inv, two = StoresAgree, "by the replies, 2 to 2 are possible"
	members := func(users ...uint64) func(*evidence) {
		return func(e *evidence) { e.video(1).Members = users }
	}
	// everywhere has all stores say that these like video 1.
	everywhere := func(users ...uint64) func(*evidence) {
		return func(e *evidence) {
			*e.video(1) = VideoAudit{Video: 1, Counts: []int64{int64(len(users))}, Members: users,
				Ledger: users}
		}
	}
	return []verdictCase{
		{inv, "the counter is too high - not finished", fail, counter(3),
			"reads 3 at the end, but 2 users like it in the ledger"},
		{inv, "the counter is too low - not finished", fail, counter(1), "reads 1"},
		{inv, "a region is behind - not finished", fail, func(e *evidence) {
			regions(e)
			e.video(1).Counts[1] = 1
		}, "region 1 reads 1"},
		{inv, "both regions agree - pass", pass, regions, ""},
		{inv, "a member is missing - not finished", fail, members(1), "user-2 is in only one of them"},
		{inv, "another member - not finished", fail, members(1, 4), "user-2 is in only one of them"},
		{inv, "all stores lost a like - not finished", fail, everywhere(1),
			"1 members at the end; " + two},
		{inv, "all stores lost one of unknown outcome - pass", pass,
			all(unknown(256), everywhere(2)), ""},
		{inv, "all stores invented a like - not finished", fail, everywhere(1, 2, 3),
			"3 members at the end; " + two},
		{inv, "a video is gone - not finished", fail, func(e *evidence) {
			e.audit.Videos = e.audit.Videos[:1]
		}, "there are 1 videos at the end, not 2"},
		{inv, "nobody liked anything - undecided", maybe, func(e *evidence) {
			e.records = nil
			for n := range uint64(2) {
				*e.video(n + 1) = VideoAudit{Video: n + 1, Counts: []int64{0},
					Members: Packed{}, Ledger: Packed{}}
			}
		}, "no like was sent"},
	}
}

func logCases() []verdictCase {
	const isLog, first = LedgerIsLog, AppliedFirst
	return []verdictCase{
		{isLog, "the ledger lacks one - fail", fail, logged(256, 512, 768, 1024, 1025),
			"there is event of operation 1280, but no such interaction"},
		{isLog, "the ledger is behind - not finished", fail, func(e *evidence) {
			logged(256, 512, 768, 1024, 1025)(e)
			e.video(2).Ledger = Packed{}
		}, "there is event of operation 1280, but no such interaction"},
		{isLog, "the log lacks one - fail", fail, func(e *evidence) {
			e.audit.Log[1].Records = e.audit.Log[1].Records[:1]
		}, "there is interaction of operation 1025, but no such event"},
		{isLog, "an acknowledged one is in neither - fail", fail, func(e *evidence) {
			e.do(1536, KindLike, 1, 5, 600*ms, 1)
		}, "operation 1536 (key \"video-1\", client \"user-5\") was acknowledged at 610ms"},
		{isLog, "one of unknown outcome is in neither - pass", pass, func(e *evidence) {
			e.do(1536, KindLike, 1, 5, 600*ms, 1)
			e.unknown(1536)
		}, ""},
		{isLog, "the contract acknowledges first - pass", pass, func(e *evidence) {
			e.audit.Contract.Ack = AckBuffer
			e.do(1536, KindLike, 1, 5, 600*ms, 1)
		}, ""},
		{isLog, "delivered twice - pass", pass, func(e *evidence) {
			e.audit.Log[0].Records = append(e.audit.Log[0].Records, e.audit.Log[0].Records[0])
		}, ""},
		{isLog, "the ledger took the older event - fail", fail, func(e *evidence) {
			e.video(1).Ledger = Packed{1, 2, 3}
		}, "2 users like it by the log, 3 by the ledger; user-3"},
		{isLog, "the newer event is first in the log - pass", pass, func(e *evidence) {
			slices.Reverse(e.audit.Log[1].Records)
		}, ""},
		{isLog, "events of a video that does not exist - fail", fail, func(e *evidence) {
			e.audit.Log[0].Records[3].Video = 9
			e.video(2).Ledger = Packed{}
		}, "video-9: it has likes in the log but does not exist"},
		{isLog, "no log - undecided", maybe, func(e *evidence) {
			e.audit.Log, e.audit.Logged = nil, Packed{}
			e.audit.Contract.Ack = AckBuffer
			for i := range e.audit.Videos {
				e.audit.Videos[i].Ledger = Packed{}
			}
		}, "the log is empty"},

		{first, "committed and not applied - fail", fail, logged(256, 512, 768, 1024, 1280),
			"partition 1: offset 12 is committed, but operation 1025 at offset 11 is not in the ledger"},
		{first, "applied and not committed - pass", pass, func(e *evidence) {
			e.audit.Log[1].Committed = 11
		}, ""},
		{first, "neither - pass", pass, func(e *evidence) {
			e.audit.Log[1].Committed = 11
			e.audit.Logged = Packed{256, 512, 768, 1024, 1280}
		}, ""},
		{first, "committed beyond the end - fail", fail, func(e *evidence) {
			e.audit.Log[0].Committed = 5
		}, "offset 5 is committed, but the log ends at 4"},
		{first, "seen ahead once - fail", fail, func(e *evidence) {
			e.look(0, 12, 11)
			e.look(250*ms, 12, 12)
		}, "partition 1: offset 12 was committed at 0s, but the ledger was at 11"},
		{first, "seen up to the ledger - pass", pass, func(e *evidence) {
			e.look(0, 11, 11)
			e.look(250*ms, 12, 12)
		}, ""},
		{first, "a look that saw nothing - pass", pass, func(e *evidence) {
			e.samples = append(e.samples, history.Sample{From: ms, To: 2 * ms, Err: "timeout"})
		}, ""},
		{first, "nothing committed - undecided", maybe, func(e *evidence) {
			e.audit.Log[0].Committed, e.audit.Log[1].Committed = 0, 10
		}, "no offset was committed"},
	}
}

func effectCases() []verdictCase {
	const durable, phantom = AckedDurable, NoPhantom
	// without 1280; without 512, before 768; without 1025, after 1024
	lost, followed := logged(256, 512, 768, 1024, 1025), logged(256, 768, 1024, 1025, 1280)
	last := logged(256, 512, 768, 1024, 1280)
	return []verdictCase{
		{durable, "an acknowledged like is gone - not finished", fail, lost,
			"operation 1280 (key \"video-2\", client \"user-1\") was acknowledged at 410ms"},
		{durable, "lost with a server's buffer and Redis - pass", pass,
			all(lost, buffered("kill api", "kill redis wipe")), ""},
		{durable, "lost with a crash and Redis' power - pass", pass,
			all(lost, buffered("crash api-2 at applied passage 3", "power-loss redis 1s")), ""},
		{durable, "more than the buffer holds - not finished", fail,
			all(logged(256, 512, 768, 1024), buffered("kill api", "kill redis wipe")), "operation 1280"},
		{durable, "acknowledged after the server's death - not finished", fail,
			all(lost, buffered("kill redis wipe"), fault("kill api", 200*ms, 300*ms)), "operation 1280"},
		{durable, "Redis lost alone - not finished", fail, all(lost, buffered("kill redis wipe")),
			"operation 1280"},
		{durable, "a server lost alone - not finished", fail, all(lost, buffered("kill api")),
			"operation 1280"},
		{durable, "a server killed and Redis with its data - not finished", fail,
			all(lost, buffered("kill api", "kill redis")), "operation 1280"},
		{durable, "a server only paused - not finished", fail,
			all(lost, buffered("pause api", "kill redis wipe")), "operation 1280"},
		{durable, "Redis lost long after the server - not finished", fail, all(lost, buffered("kill api"),
			fault("kill redis wipe", 6*time.Second, 7*time.Second)), "operation 1280"},
		{durable, "of a dead server's buffer, followed by another - pass", pass,
			all(followed, early, buffered("kill api-1")),
			"1 acknowledged interactions are not in the ledger"},
		{durable, "followed by another before it was acknowledged from a log - not finished", fail,
			all(followed, buffered("kill api-1")), "operation 512"},
		{durable, "followed by another, and no server died - not finished", fail,
			all(followed, early, buffered("pause api-1")), "operation 512"},
		{durable, "the last of a dead server's buffer - not finished", fail,
			all(last, early, buffered("kill api-1")), "operation 1025"},
		{durable, "more followed than the buffer holds - not finished", fail, func(e *evidence) {
			e.do(1281, KindLike, 2, 1, 450*ms, 0)
			all(logged(256, 768, 1024, 1025, 1281), early, buffered("kill api-1"))(e)
		}, "operation 1280"},
		{durable, "a bound that nothing breaks - undecided", maybe, all(
			buffered("kill api", "kill redis wipe"),
			func(e *evidence) { e.audit.Contract.LossBound = 100 }), "no loss could exceed it"},

		{phantom, "never asked for - fail", fail, logged(256, 512, 768, 1024, 1025, 1280, 4096),
			"effect of operation 4096"},
		{phantom, "of unknown outcome - pass", pass, unknown(1280), ""},
		{phantom, "nothing is there - undecided", maybe, logged([]uint64{}...), "there is no effect"},
	}
}

func viewerCases() []verdictCase {
	const inv = ViewersEstimated
	// many has a thousand viewers, and how many are estimated.
	many := func(viewers int64) func(*evidence) {
		return func(e *evidence) {
			for i := range uint64(998) {
				e.do(1<<20+i, KindView, 1, 100+i, 700*ms, 0)
			}
			e.video(1).Viewers = viewers
		}
	}
	redis := func(what string) func(*evidence) { return fault(what, 500*ms, 600*ms) }
	return []verdictCase{
		{inv, "four per cent off - pass", pass, many(1040), "off by 4.00 %"},
		{inv, "six per cent too many - fail", fail, many(1060),
			"1060 viewers are estimated; the true number is 1000 to 1000"},
		{inv, "six per cent too few - fail", fail, many(940), "940 viewers"},
		{inv, "too few of those acknowledged - pass", pass, func(e *evidence) {
			many(800)(e)
			for i := range uint64(200) {
				e.unknown(1<<20 + i)
			}
		}, ""},
		{inv, "too few after Redis was lost - pass", pass, all(many(10), redis("kill redis wipe")), ""},
		{inv, "too many after Redis was lost - fail", fail, all(many(1060), redis("kill redis wipe")),
			"1060 viewers"},
		{inv, "too few after Redis was paused - fail", fail, all(many(10), redis("pause redis")),
			"10 viewers"},
		{inv, "nobody looked - undecided", maybe, func(e *evidence) {
			e.forget(259)
			e.forget(515)
			e.video(1).Viewers = 0
		}, "no video was viewed"},
	}
}
