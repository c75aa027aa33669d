package crawler_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"stampede/harness/check"
	"stampede/harness/history"
	"stampede/harness/suttest"
	"stampede/systems/crawler"
	"stampede/systems/crawler/web"
)

// proof is what the judges of crawler are proved by.
func proof() suttest.Proof[*evidence] {
	return suttest.Played(suttest.Proof[*evidence]{
		Unnoticed: map[string][]string{
			"no operation has a client":                  {"change client of look", "change client of seed"},
			"a read may be refused":                      {"deny look"},
			"a request may fail before it is at the web": {"raise failed of pages"},
			"a little of a time, or who asked, means nothing": {"exchange agent of log",
				"raise at_ns of log", "lower at_ns of log", "raise seen_ns of log", "lower seen_ns of log"},
		},
		Absent: map[string][]string{
			"no look is refused": {"invent look"},
			"there is one agent": {"exchange agent of log"},
		},
	},
		crawler.System(), crowd, anyCrowd, 60, 2*time.Second, newSpider)
}

// TestJudges: the judges are sound, a smoke run decides all of them, and none is vacuous.
func TestJudges(t *testing.T) {
	suttest.Prove(t, proof(), 50, []suttest.Corruption[*evidence]{
		{Name: "a host is asked too soon", Breaks: crawler.Polite,
			Do: func(e *evidence, pick func(int) int) bool {
				a, b := pair(e, pick)
				if a != nil {
					b.AtNS = a.SeenNS + e.P.Delay.D().Nanoseconds()*9/10
				}
				return a != nil
			}},
		{Name: "a page is asked for once more", Breaks: crawler.FetchedOnce,
			Do: func(e *evidence, pick func(int) int) bool {
				return suttest.Change(e.Audit.Log, pick, func(x *web.Exchange) bool {
					return x.Status == 200 && x.Hash != "" && !strings.HasSuffix(x.Key, "/robots.txt")
				}, func(one *web.Exchange) {
					more := *one
					more.AtNS, more.SeenNS = more.AtNS+1e10, more.SeenNS+1e10
					// No failure that only the crawler noticed may explain it.
					for i := range e.Audit.Pages {
						e.Audit.Pages[i].Failed = 0
					}
					e.Audit.Log = append(e.Audit.Log, more)
				})
			}},
		{Name: "what is forbidden is asked for", Breaks: crawler.RobotsHeeded,
			Do: func(e *evidence, pick func(int) int) bool {
				return suttest.Change(e.Audit.Pages, pick, func(r *crawler.PageRow) bool {
					return r.State == "disallowed" && strings.Contains(r.URL, "/private/")
				}, func(row *crawler.PageRow) {
					e.Audit.Log = append(e.Audit.Log, web.Exchange{Key: strings.TrimPrefix(row.URL, "http://"),
						AtNS: 1e11, SeenNS: 1e11, Status: 200})
				})
			}},
		{Name: "a path without end is followed", Breaks: crawler.WithinLimits,
			Do: func(e *evidence, pick func(int) int) bool {
				e.Audit.Log = append(e.Audit.Log, web.Exchange{Key: "h1.test/loop/loop/loop/loop/loop/",
					AtNS: 1e11, SeenNS: 1e11, Status: 200})
				return true
			}},
	})
}

// pair picks two requests to one host, of which the second came after the first was answered; nil
// if there are none.
func pair(e *evidence, pick func(int) int) (a, b *web.Exchange) {
	last := map[string]*web.Exchange{}
	var pairs [][2]*web.Exchange
	for i := range e.Audit.Log {
		x := &e.Audit.Log[i]
		host, _ := web.Split(x.Key)
		if before := last[host]; before != nil && x.Status > 0 && before.Status > 0 {
			pairs = append(pairs, [2]*web.Exchange{before, x})
		}
		last[host] = x
	}
	if len(pairs) == 0 {
		return nil, nil
	}
	one := pairs[pick(len(pairs))]
	return one[0], one[1]
}

type clause suttest.Case[*evidence]

// unlinked is a run in which of a chain only the first page is known, and was kept so often.
func unlinked(kept int64) func(*evidence) {
	further := func(key string) bool {
		return strings.Contains(key, "/chain/1/") && !strings.HasSuffix(key, "/0")
	}
	return func(e *evidence) {
		e.Audit.Pages = slices.DeleteFunc(e.Audit.Pages,
			func(r crawler.PageRow) bool { return further(r.URL) })
		e.Audit.Log = slices.DeleteFunc(e.Audit.Log,
			func(x web.Exchange) bool { return further(x.Key) })
		for i := range e.Audit.Pages {
			if r := &e.Audit.Pages[i]; strings.HasSuffix(r.URL, "/chain/1/0") {
				r.Fetched = kept
			}
		}
	}
}

// looksSay is a run in which all looks are answered so.
func looksSay(text string) func(*evidence) {
	return func(e *evidence) {
		for i := range e.Records {
			if r := &e.Records[i]; r.Op.Kind == crawler.KindLook {
				r.Reply.Body = []byte(strings.ReplaceAll(text, "URL", r.Op.Key))
			}
		}
	}
}

// TestClauses: each clause accepts what is right and refuses what is wrong.
func TestClauses(t *testing.T) {
	good := func() *evidence { return proof().Whole(t, 1) }
	row := func(state string, change func(e *evidence, r *crawler.PageRow)) func(*evidence) {
		return func(e *evidence) {
			i := slices.IndexFunc(e.Audit.Pages, func(r crawler.PageRow) bool {
				return r.State == state && (state != "done" || r.Fetched == 1)
			})
			change(e, &e.Audit.Pages[i])
		}
	}
	request := func(x web.Exchange) func(*evidence) {
		return func(e *evidence) {
			x.AtNS, x.SeenNS = 1e11, 1e11
			e.Audit.Log = append(e.Audit.Log, x)
		}
	}
	// A page that moved is answered so many times more, the first time while a fault is in force, or
	// so much earlier.
	again := func(fault string, before time.Duration, times int) func(*evidence) {
		return row("moved", func(e *evidence, r *crawler.PageRow) {
			i := slices.IndexFunc(e.Audit.Log, func(x web.Exchange) bool {
				return "http://"+x.Key == r.URL && x.Status > 0
			})
			x := e.Audit.Log[i]
			at := time.Duration(x.AtNS) - 5*time.Second // the web began so long before
			for n := range times {
				x.AtNS, x.SeenNS = x.AtNS+int64(n+1)*int64(ms), x.SeenNS+int64(n+1)*int64(ms)
				e.Audit.Log = append(e.Audit.Log, x)
			}
			e.Windows = []history.Window{{Kind: history.FaultWindow, Name: "dies", Fault: fault,
				Start: at + before, End: at + before + 2*ms, Evidence: []string{"it was off"}}}
		})
	}
	noLog := func(e *evidence) { e.Audit.Log = nil }
	none := func(state string) func(*evidence) {
		return func(e *evidence) {
			e.Audit.Pages = slices.DeleteFunc(e.Audit.Pages, func(r crawler.PageRow) bool {
				return r.State == state
			})
		}
	}
	// A page that failed was asked for so often.
	inVain := func(times int) func(*evidence) {
		return row("failed", func(e *evidence, r *crawler.PageRow) {
			key := strings.TrimPrefix(r.URL, "http://")
			e.Audit.Log = slices.DeleteFunc(e.Audit.Log, func(x web.Exchange) bool { return x.Key == key })
			for range times {
				request(web.Exchange{Key: key, Status: 503})(e)
			}
		})
	}
	noPage := func(record int) func(*evidence) {
		return func(e *evidence) { suttest.Deny(&e.Records[record], crawler.ErrNoPage) }
	}
	suttest.Clauses(t, proof(), good, []clause{
		{crawler.SeedsKept, "one is lost", check.Broken, func(e *evidence) {
			e.Audit.Seeds = e.Audit.Seeds[1:]
		}, "was acknowledged"},
		{crawler.SeedsKept, "one is kept twice", check.Broken, func(e *evidence) {
			e.Audit.Seeds = append(e.Audit.Seeds, e.Audit.Seeds[0])
		}, "operation"},
		{crawler.SeedsKept, "nobody asked", check.Broken, func(e *evidence) {
			e.Audit.Seeds = append(e.Audit.Seeds, crawler.SeedRow{ID: 9, URL: "http://h0.test/"})
		}, "9"},
		{crawler.SeedsKept, "nobody has heard of it", check.Broken,
			looksSay(`{"url":"URL","state":""}`), "was shown version 0"},
		{crawler.SeedsKept, "an answer that is none", check.Broken, looksSay("["), "cannot be read"},
		{crawler.SeedsKept, "a page is said to be none", check.Broken, noPage(0), "is a page, and"},
		{crawler.SeedsKept, "what is no page is said to be none", check.Held, func(e *evidence) {
			none := e.Records[0]
			none.Op = crawler.API().Op(crawler.KindSeed, crawler.SeedRequest{ID: 9, URL: "http://h9999.test/"})
			e.Records = append(e.Records, none)
			noPage(len(e.Records) - 1)(e)
		}, ""},
		{crawler.SeedsKept, "what is no page is taken", check.Broken, func(e *evidence) {
			none := e.Records[0]
			none.Op = crawler.API().Op(crawler.KindSeed, crawler.SeedRequest{ID: 9, URL: "ftp://h0.test/"})
			e.Records = append(e.Records, none)
		}, "ftp://h0.test/ is no page, and was taken as one"},
		{crawler.SeedsKept, "all but one wait for ever", check.Undecided, func(e *evidence) {
			e.P.Lease, e.P.FetchTimeout = 1, 1
			one := ""
			for i := range e.Records {
				r := &e.Records[i]
				if r.Op.Kind == crawler.KindLook && r.Reply.Value > 0 && one == "" {
					one = r.Op.Key
				}
				if r.Op.Kind == crawler.KindLook && r.Op.Key != one {
					r.Reply = history.Reply{Body: []byte(`{"url":"` + r.Op.Key + `","state":"waiting"}`)}
				}
			}
		}, "that the web had answered long before"},
		{crawler.SeedsKept, "nobody looked", check.Undecided, func(e *evidence) {
			e.Records = slices.DeleteFunc(e.Records, func(r history.Record) bool {
				return r.Op.Kind == crawler.KindLook
			})
		}, "nobody saw"},

		{crawler.AllFetched, "one is not known", check.Broken, none("disallowed"), "nobody has heard " +
			"of"},
		{crawler.AllFetched, "one to which an answer leads that was kept", check.Broken, unlinked(1),
			"nobody has heard of"},
		{crawler.AllFetched, "one to which only an answer leads that was not", check.Held, unlinked(0),
			""},
		{crawler.AllFetched, "nobody waited for one", check.Undecided,
			row("done", func(e *evidence, r *crawler.PageRow) {
				r.State = "failed"
				for range e.P.Attempts {
					request(web.Exchange{Key: strings.TrimPrefix(r.URL, "http://")})(e)
				}
			}), "either nobody waited or the machine was late"},
		{crawler.AllFetched, "one is not fetched", check.Broken,
			row("done", func(_ *evidence, r *crawler.PageRow) { r.State = "waiting" }),
			"it should be done"},
		{crawler.AllFetched, "one is given up too soon", check.Broken,
			row("done", func(_ *evidence, r *crawler.PageRow) { r.State = "failed" }),
			"not tried as often"},
		{crawler.AllFetched, "one is said to be forbidden", check.Broken,
			row("moved", func(_ *evidence, r *crawler.PageRow) { r.State = "disallowed" }),
			"robots.txt allows it"},
		{crawler.AllFetched, "one that is forbidden is fetched", check.Broken,
			row("disallowed", func(_ *evidence, r *crawler.PageRow) { r.State = "done" }),
			"robots.txt forbids it"},
		{crawler.AllFetched, "one to which nothing leads", check.Broken, func(e *evidence) {
			e.Audit.Pages = append(e.Audit.Pages, crawler.PageRow{URL: "http://h0.test/unfollowed/1",
				State: "done"})
		}, "nothing leads to it"},
		{crawler.AllFetched, "one that is not known is asked for", check.Broken,
			request(web.Exchange{Key: "h0.test/unfollowed/1", Status: 200}), "is not known"},
		{crawler.AllFetched, "in no state", check.Broken,
			row("done", func(_ *evidence, r *crawler.PageRow) { r.State = "taken" }), "which is no state"},
		{crawler.AllFetched, "one is not fetched again", check.Broken, func(e *evidence) {
			i := slices.IndexFunc(e.Audit.Pages, func(r crawler.PageRow) bool {
				return r.State == "done" && r.Fetched > 1
			})
			e.Audit.Pages[i].Fetched = 1
		}, "fetched again"},
		{crawler.AllFetched, "no log", check.Undecided, noLog, "no log"},

		{crawler.FetchedOnce, "kept twice", check.Broken,
			row("done", func(_ *evidence, r *crawler.PageRow) { r.Fetched = 3 }), "was kept 3 times"},
		{crawler.FetchedOnce, "the web never answered", check.Broken,
			row("gone", func(e *evidence, r *crawler.PageRow) {
				e.Audit.Log = slices.DeleteFunc(e.Audit.Log, func(x web.Exchange) bool {
					return "http://"+x.Key == r.URL
				})
			}), "the web answered 0 requests"},
		{crawler.FetchedOnce, "moved, and nobody asked", check.Broken,
			row("moved", func(_ *evidence, r *crawler.PageRow) { r.Fetched = 0 }), "was never fetched"},
		{crawler.FetchedOnce, "a crash that never came explains nothing", check.Broken,
			row("moved", func(e *evidence, r *crawler.PageRow) {
				r.Failed = 0
				request(web.Exchange{Key: strings.TrimPrefix(r.URL, "http://"), Status: 302})(e)
				e.Windows = []history.Window{{Kind: history.FaultWindow, Name: "dies", Start: ms,
					End: 2 * ms, Fault: "crash fetcher at stored", Effects: []byte(`{"crashes":[]}`),
					Evidence: []string{"it was armed"}}}
			}), "were not kept"},
		{crawler.FetchedOnce, "known twice", check.Broken,
			row("done", func(e *evidence, r *crawler.PageRow) {
				e.Audit.Pages = append(e.Audit.Pages, *r)
			}), "is a page twice"},
		{crawler.FetchedOnce, "a fault explains a lost answer", check.Held,
			again("kill postgres", 0, 1), ""},
		{crawler.FetchedOnce, "one of an address", check.Broken, again("kill postgres", 0, 2),
			"2 answers of address"},
		{crawler.FetchedOnce, "one that was under way then", check.Broken,
			again("kill postgres", 20*time.Second, 1), "0 were under way"},
		{crawler.FetchedOnce, "a process that died explains its last answer", check.Held,
			func(e *evidence) {
				again("kill fetcher", 0, 1)(e)
				for i := range e.Audit.Log {
					if x := &e.Audit.Log[i]; time.Duration(x.AtNS) > e.Windows[0].End+5*time.Second {
						x.Agent = "another"
					}
				}
			}, ""},
		{crawler.FetchedOnce, "one that goes on explains none", check.Broken,
			again("kill fetcher", 0, 1), "0 were under way"},
		{crawler.FetchedOnce, "who had no time to wait did not give up", check.Broken,
			func(e *evidence) {
				row("moved", func(_ *evidence, r *crawler.PageRow) { r.Failed++ })(e)
				again("kill api-1", 0, 1)(e)
			}, "were not kept"},
		{crawler.FetchedOnce, "who was answered at once may be late", check.Undecided,
			row("moved", func(e *evidence, r *crawler.PageRow) {
				r.Failed++
				request(web.Exchange{Key: strings.TrimPrefix(r.URL, "http://"), IP: "10.0.0.1",
					Status: 302})(e)
			}), "the machine was late"},
		{crawler.FetchedOnce, "nothing explains a lost answer", check.Broken,
			row("moved", func(e *evidence, r *crawler.PageRow) {
				r.Failed = 0
				request(web.Exchange{Key: strings.TrimPrefix(r.URL, "http://"), Status: 302})(e)
			}), "were not kept"},
		{crawler.FetchedOnce, "no log", check.Undecided, noLog, "no log"},

		{crawler.Polite, "two hosts of an address at once", check.Broken, func(e *evidence) {
			request(web.Exchange{Key: "h0.test/", IP: "10.0.0.0", Status: 200})(e)
			request(web.Exchange{Key: "h1.test/", IP: "10.0.0.0", Status: 200})(e)
		}, "address 10.0.0.0"},
		{crawler.Polite, "who has gone says nothing", check.Held, func(e *evidence) {
			request(web.Exchange{Key: "h0.test/", IP: "10.0.0.0", Status: 200})(e)
			request(web.Exchange{Key: "h1.test/", IP: "10.0.0.0", Stale: true})(e)
		}, ""},
		{crawler.Polite, "no log", check.Undecided, noLog, "no log"},

		{crawler.RobotsHeeded, "nobody asked for robots.txt", check.Broken, func(e *evidence) {
			e.Audit.Log = slices.DeleteFunc(e.Audit.Log, func(x web.Exchange) bool {
				return strings.HasSuffix(x.Key, "/robots.txt")
			})
		}, "before a robots.txt"},
		{crawler.RobotsHeeded, "an old one", check.Broken,
			row("done", func(e *evidence, r *crawler.PageRow) {
				request(web.Exchange{Key: strings.TrimPrefix(r.URL, "http://"), Status: 200})(e)
			}), "nothing that is as new"},
		{crawler.RobotsHeeded, "nothing is forbidden", check.Undecided, none("disallowed"),
			"no page was disallowed"},

		{crawler.WithinLimits, "a path", check.Broken,
			request(web.Exchange{Key: "h0.test/loop/loop/loop/loop/", Status: 200}), "beyond the limits"},
		{crawler.WithinLimits, "a redirect", check.Broken,
			request(web.Exchange{Key: "h0.test/chain/1/6", Status: 302}), "within 5 redirects"},
		{crawler.WithinLimits, "twice as often in vain as may be", check.Held, inVain(10), ""},
		{crawler.WithinLimits, "more often in vain", check.Broken, inVain(11), "11 times in vain"},
		{crawler.WithinLimits, "more often in vain, as is said", check.Broken,
			row("failed", func(_ *evidence, r *crawler.PageRow) { r.Failed = 6 }), "6 times in vain"},
		{crawler.WithinLimits, "no log", check.Undecided, noLog, "no log"},

		{crawler.StoredAsServed, "another body", check.Broken, func(e *evidence) {
			e.Audit.Bodies[0].Is = "0a"
		}, "and is 0a"},
		{crawler.StoredAsServed, "a page that was never sent so", check.Broken,
			row("done", func(_ *evidence, r *crawler.PageRow) { r.Hash = "0a" }), "never sent it"},
		{crawler.StoredAsServed, "a body that nobody sent", check.Broken, func(e *evidence) {
			e.Audit.Bodies = append(e.Audit.Bodies, crawler.BodyRow{Hash: "ab", Is: "ab", Bytes: 1})
		}, "the body ab is stored, and the web never"},
		{crawler.StoredAsServed, "a body is missing", check.Broken, func(e *evidence) {
			e.Audit.Bodies = e.Audit.Bodies[1:]
		}, "is not stored"},
		{crawler.StoredAsServed, "no log", check.Undecided, noLog, "no log"},

		{crawler.AllCounted, "one too many", check.Broken, func(e *evidence) {
			e.Audit.Hosts[0].Pages++
		}, "host"},
		{crawler.AllCounted, "no pages", check.Undecided,
			func(e *evidence) { e.Audit.Pages = nil }, ""},
	})
}
