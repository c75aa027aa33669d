// Package crawler fetches the pages of a web from seeds on. Its question: which designs fetch every
// page that they may, once, and never ask a host more often than it can bear, while the web is
// hostile and crawlers die?
//
// The web is synthetic and served on the loopback, through a proxy: see package web. It keeps a log
// of every request, with times of its own. That log is the judge: no crawler writes it, and none
// takes it with it when it dies.
package crawler

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"path/filepath"
	"time"

	"stampede/harness/api"
	"stampede/harness/bounds"
	"stampede/harness/sut"
	"stampede/systems/crawler/web"
)

// The kinds of operations.
const (
	KindSeed = "seed"
	KindLook = "look"
)

// The reasons of a refusal; each wraps sut.ErrRefused.
var (
	// ErrUnavailable: the frontier cannot be asked now.
	ErrUnavailable = sut.Refusal("unavailable", "the frontier does not answer")
	// ErrNoPage: the address is not that of a page.
	ErrNoPage = sut.Refusal("no_page", "it is not the http address of a page on a host that there is")
)

// Crawler is the domain interface: what users ask for.
type Crawler interface {
	Seed(ctx context.Context, req SeedRequest) (Seeded, error)
	Look(ctx context.Context, req LookRequest) (Page, error)
}

// SeedRequest asks for a page to be crawled, and all that it leads to.
type SeedRequest struct {
	ID       uint64 `json:"op_id" op:"id" min:"1" max:"9223372036854775807" doc:"the request's identity: sent again it is the same seed"`
	URL      string `json:"url" op:"key" min:"10" max:"500" example:"http://h0.test/" doc:"its address in its normal form, as the README has it; one that is of no host, or beyond segments or repeats, is refused as no_page"`
	Priority int    `json:"priority" min:"0" max:"2" doc:"0 comes first; what a page leads to comes one later; a wish, which is not judged"`
}

// Seeded says that a seed is durable: it will be crawled.
type Seeded struct {
	URL string `json:"url" doc:"the address as it was understood"`
}

// LookRequest asks what is known of a page.
type LookRequest struct {
	ID  uint64 `json:"-" query:"op_id" op:"id" default:"" min:"1" max:"9223372036854775807"`
	URL string `json:"-" query:"url" op:"key" min:"10" max:"500" example:"http://h0.test/"`
}

// The states of a page. All but the first are final, unless a page is crawled again.
const (
	waiting    = "waiting"    // it will be fetched
	done       = "done"       // it was, and its body is stored
	moved      = "moved"      // it was, and led elsewhere
	large      = "large"      // it is larger than may be read
	gone       = "gone"       // there is no such page
	disallowed = "disallowed" // its host's robots.txt forbids it, or cannot be had
	failed     = "failed"     // it was tried as often as it may be
)

// Page is what is known of a page.
type Page struct {
	URL     string `json:"url"`
	State   string `json:"state" enum:",waiting,done,moved,large,gone,disallowed,failed" doc:"empty if nobody has heard of it; the README says what each is"`
	Fetched int64  `json:"fetched" op:"value" min:"0" doc:"how often it was fetched: answers that made it done, moved, large or gone"`
	Status  int    `json:"status" min:"0" doc:"of the last answer; 0 if there was none"`
	Hash    string `json:"hash" doc:"SHA-256 of the body in hexadecimal; empty if none is stored, as of a page that is moved, large or gone"`
}

// API is what each operation is as a call, in a history and over HTTP.
func API() *api.Table[Crawler] {
	return &api.Table[Crawler]{
		System: "crawler", Title: "Web crawler",
		About: "The API of a crawler that is given seeds. stampede serves its own designs over it.",
		Kinds: []api.Kind[Crawler]{
			api.Op(KindSeed, "POST /v1/seeds", Crawler.Seed, api.About{
				Summary: "Crawl a page, and what it leads to.", Reply: "The seed is durable.",
				Status: http.StatusCreated, Refuses: []error{ErrUnavailable, ErrNoPage}}),
			api.Op(KindLook, "GET /v1/pages", Crawler.Look, api.About{
				Summary: "Say what is known of a page.", Reply: "What is known.",
				Refuses: []error{ErrUnavailable, ErrNoPage}}),
		},
		Problems: []api.Problem{{Status: http.StatusServiceUnavailable, Is: ErrUnavailable},
			{Status: http.StatusUnprocessableEntity, Is: ErrNoPage}},
		MaxBody: 4 << 10,
		Reset:   ResetRequest{}, ResetMeans: "Begin with no page known, and these limits.",
		Begin: func(params any) (any, error) {
			p, err := sut.ParamsOf[Params](params)
			return ResetRequest{p.Limits, "", p.Delay.D().Milliseconds(), p.FetchTimeout.D().Milliseconds(),
				p.RobotsTTL.D().Milliseconds(), p.RecrawlAfter.D().Milliseconds(), p.Attempts,
				p.Recrawls}, err
		},
		Adopt: func(cfg sut.Config, asked any) (any, error) {
			r := asked.(ResetRequest)
			proxy := r.Proxy
			if r.Proxy = ""; proxy == "" {
				return r, nil
			}
			return r, web.Point(filepath.Join(cfg.Folder, web.AddressFile), proxy)
		},
		PendingMeans: "Optional. Without it a server is at rest when no page of its audit is waiting.",
		Left:         api.LeftIn((*Audit).waiting), Audit: Audit{},
	}
}

// ResetRequest asks for a new beginning. It has what no crawler goes beyond.
type ResetRequest struct {
	web.Limits
	Proxy     string `json:"proxy" max:"100" example:"127.0.0.1:7777" doc:"where the web is, as host:port: an HTTP proxy through which every page is asked for, and where GET /ip/HOST, not through the proxy, answers with a host's address, or 404; empty: a web of the server's own, which is never asked of a server that is judged by its URL"`
	DelayMS   int64  `json:"delay_ms" min:"1" max:"60000" doc:"the least time between an answer of a host, or an address, and the next request to it"`
	TimeoutMS int64  `json:"fetch_timeout_ms" min:"1" max:"60000" doc:"how long to wait for a page, or a robots.txt, with its body"`
	TTLMS     int64  `json:"robots_ttl_ms" min:"1" max:"86400000" doc:"for how long a robots.txt is heeded before it is asked for again"`
	RecrawlMS int64  `json:"recrawl_after_ms" min:"1" max:"86400000" doc:"the least time before a page that says how long it is fresh (Cache-Control: max-age) is fetched again"`
	Attempts  int    `json:"attempts" min:"3" max:"20" doc:"how often a page, or a robots.txt, is tried in vain before it is given up"`
	Recrawls  int    `json:"recrawls" min:"0" max:"100" doc:"how often a page that says how long it is fresh is fetched again"`
}

// Audit is what can be read in the end: of a design's stores, and of the web's log.
type Audit struct {
	Seeds  []SeedRow      `json:"seeds" doc:"every seed"`
	Pages  []PageRow      `json:"pages" doc:"every page that was heard of, also those that are disallowed; not robots.txt, nor what is beyond the limits"`
	Hosts  []HostRow      `json:"hosts" doc:"how many pages of each host were heard of, as it was counted: the same as pages has"`
	Bodies []BodyRow      `json:"bodies" doc:"every body that is stored"`
	Log    []web.Exchange `json:"log" doc:"the web's own log; not needed from a server that was given a proxy"`

	seen *seen
}

// waiting counts the pages that are to be fetched.
func (a *Audit) waiting() (n int64, what string) {
	for _, row := range a.Pages {
		n += int64(count(row.State == waiting))
	}
	return n, fmt.Sprintf("%d pages wait", n)
}

// SeedRow is a seed.
type SeedRow struct {
	ID  uint64 `json:"op_id" min:"1" fact:"op"`
	URL string `json:"url" fact:"key"`
}

// PageRow is a page.
type PageRow struct {
	URL     string `json:"url"`
	State   string `json:"state" doc:"as in a look; at rest none is waiting, also not to be fetched again"`
	Hash    string `json:"hash" doc:"of its body; empty if none is stored"`
	Fetched int64  `json:"fetched" min:"0" doc:"how often an answer was kept"`
	Failed  int64  `json:"failed" min:"0" doc:"how often it was asked for in vain"`
}

// HostRow is a host.
type HostRow struct {
	Host  string `json:"host" fact:"key"`
	Pages int64  `json:"pages" min:"0" fact:"thing"`
}

// BodyRow is a body. Pages with the same text share one.
type BodyRow struct {
	Hash  string `json:"hash" doc:"by which it is found"`
	Is    string `json:"is" doc:"its SHA-256, reckoned for the audit"`
	Bytes int64  `json:"bytes" min:"0"`
}

// Params are the workload's parameters, and what the web and the designs are like.
type Params struct {
	web.Shape
	web.Limits
	Delay        sut.Duration `json:"delay" min:"1ms" max:"1m" doc:"the least time between an answer of a host, or an address, and the next request to it"`
	FetchTimeout sut.Duration `json:"fetch_timeout" min:"10ms" max:"1m" doc:"how long a crawler waits for a page"`
	RobotsTTL    sut.Duration `json:"robots_ttl" min:"100ms" max:"24h" doc:"for how long a robots.txt is heeded before it is asked for again"`
	Attempts     int          `json:"attempts" min:"3" max:"20" doc:"how often a page, or a robots.txt, is tried in vain before it is given up"`
	RetryPause   sut.Duration `json:"retry_pause" min:"1ms" max:"1m" doc:"how long a host rests after a failure; after each more that follows, twice as long"`
	Recrawls     int          `json:"recrawls" min:"0" max:"100" doc:"how often a page that says how long it is fresh is fetched again"`
	RecrawlAfter sut.Duration `json:"recrawl_after" min:"10ms" max:"24h" doc:"the least time before that"`
	Workers      int          `json:"workers" min:"1" max:"1000" doc:"how many pages a process fetches at once"`
	Lease        sut.Duration `json:"lease" min:"100ms" max:"10m" doc:"for how long a process has an address, at least twice fetch_timeout"`

	PerIsland int     `json:"per_island" min:"1" max:"10000" doc:"after how many seeds the next ones are in another island"`
	Twice     float64 `json:"twice" min:"0" max:"1" doc:"share of seeds that two clients send at once"`
}

// DefaultParams are two hundred hosts, of which some are hostile.
func DefaultParams() Params {
	ms := func(n int) sut.Duration { return sut.Duration(time.Duration(n) * time.Millisecond) }
	return Params{
		Shape: web.Shape{WebSeed: 1, Hosts: 200, Island: 5, HostsPerIP: 2, Pages: 20, SlowHosts: 0.05,
			DeadHosts: 0.05, FlakyHosts: 0.1, Traps: 0.1, HostilePages: 0.1, HostileRobots: 0.4,
			News: 0.05, NewsEvery: ms(2000), Hidden: 3, SlowTime: ms(300), PageTime: ms(2),
			CrawlDelay: ms(150)},
		Limits: web.Limits{Redirects: 5, MaxBytes: 100_000, Segments: 8, Repeats: 3, PerHost: 60},
		Delay:  ms(50), FetchTimeout: ms(1000), RobotsTTL: ms(5000), Attempts: 5,
		RetryPause: ms(100), Recrawls: 1, RecrawlAfter: ms(1500), Workers: 16, Lease: ms(5000),
		PerIsland: 5, Twice: 0.3}
}

// Validate returns every bad field at once, each named as in a scenario, or nil.
func (p Params) Validate() error {
	err := bounds.Check(p)
	if least := 2000 + 200*p.Pages; p.MaxBytes < least {
		err = errors.Join(err, fmt.Errorf("max_bytes: expected at least %d, for as many pages of a "+
			"host, got %d", least, p.MaxBytes))
	}
	if p.Lease < 2*p.FetchTimeout {
		err = errors.Join(err, fmt.Errorf("lease: expected at least twice fetch_timeout (%v), got %v",
			p.FetchTimeout, p.Lease))
	}
	return err
}

// Web is the shape of the web.
func (p Params) Web() web.Shape {
	p.HugeBytes = 2 * p.MaxBytes
	return p.Shape
}
