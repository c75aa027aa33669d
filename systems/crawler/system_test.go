package crawler_test

import (
	"encoding/json"
	"fmt"
	"os"
	"testing"
	"time"

	"stampede/harness/api"
	"stampede/harness/api/apitest"
	"stampede/harness/env/envtest"
	"stampede/harness/sut"
	"stampede/harness/suttest"
	"stampede/systems/crawler"
	"stampede/systems/crawler/web"
)

const ms = time.Millisecond

// stores are shared by all store-backed tests of this package.
var stores = envtest.NewShared(sut.Postgres, sut.Redis)

func TestMain(m *testing.M) { os.Exit(stores.Run(m)) }

// TestConformance runs the suite over every variant on real stores.
func TestConformance(t *testing.T) { suttest.Exercise(t, suite()) }

func suite() suttest.Suite {
	return suttest.Suite{System: crawler.System(), Params: crowd(),
		Space: stores.Namespace, Seed: 1, Ops: 60, Over: 2000 * ms, Summary: summary,
		Servers: []string{"web", "fetcher"}}
}

// crowd is a small web with everything that is hostile.
func crowd() *crawler.Params {
	p := crawler.DefaultParams()
	d := func(n int) sut.Duration { return sut.Duration(time.Duration(n) * ms) }
	p.Hosts, p.Pages, p.PerIsland, p.HostilePages = 40, 16, 5, 0.2
	p.Delay, p.CrawlDelay, p.RetryPause, p.FetchTimeout = d(20), d(60), d(20), d(400)
	p.SlowTime, p.RobotsTTL, p.RecrawlAfter, p.Lease = d(100), d(2000), d(300), d(2000)
	p.PerHost, p.DeadHosts, p.RobotsChange = 45, 0.1, d(6000)
	return &p
}

// summary lists the seeds.
func summary(raw json.RawMessage) (string, error) {
	audit, err := api.DecodeAudit[crawler.Audit](raw)
	if err != nil {
		return "", err
	}
	return fmt.Sprint(audit.Seeds), nil
}

// TestAPI: the API is what its table says, at both ends of the wire.
func TestAPI(t *testing.T) {
	audit, err := json.Marshal(crawler.Audit{
		Seeds:  []crawler.SeedRow{{ID: 16, URL: "http://h0.test/"}},
		Pages:  []crawler.PageRow{{URL: "http://h0.test/", State: "done", Hash: "0a", Fetched: 1}},
		Hosts:  []crawler.HostRow{{Host: "h0.test", Pages: 1}},
		Bodies: []crawler.BodyRow{{Hash: "0a", Is: "0a", Bytes: 9}},
		Log: []web.Exchange{{Agent: "a", Key: "h0.test/", IP: "10.0.0.0", AtNS: 1, Bytes: 9,
			SeenNS: 2, Status: 200, Hash: "0a"}}})
	if err != nil {
		t.Fatal(err)
	}
	apitest.Conform(t, crawler.API(), crawler.DefaultParams(), audit, nil)
	apitest.Written(t, "openapi.yaml", crawler.API().OpenAPI())
}

func FuzzRequests(f *testing.F) {
	apitest.FuzzRequests(f, crawler.API(), crawler.DefaultParams())
}
