package crawler_test

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gocolly/colly/v2"

	"stampede/harness/sut"
	"stampede/systems/crawler"
	"stampede/systems/crawler/web"
)

// BenchmarkCrawl fetches pages of 10,000 hosts, from the front page of each on, with the web in the
// same process: half of the CPU is the web's. disk_frontier keeps a page on the disk before it goes
// on, asks each host's robots.txt, and leaves each address alone for 50 ms. Colly keeps what it has
// seen in memory and stores nothing; it asks robots.txt too, and is not polite: a limit for each of
// 10,000 hosts is a list that it goes through for each request, and one for all is a limit of them
// together. A ratio is to Colly.
func BenchmarkCrawl(b *testing.B) {
	const pages = 20_000
	p := crawler.DefaultParams()
	p.Hosts, p.Workers, p.PageTime = 10_000, 256, 0
	p.SlowHosts, p.DeadHosts, p.FlakyHosts, p.Traps, p.HostilePages, p.HostileRobots = 0, 0, 0, 0, 0, 0
	shape := p.Web()
	seeds := make([]string, p.Hosts)
	for i := range seeds {
		seeds[i] = "http://" + shape.Key(i, 0)
	}
	base := 0.0
	for _, side := range []struct {
		name  string
		crawl func(ctx context.Context, at, folder string) (int, error)
	}{
		{"colly", func(_ context.Context, at, _ string) (int, error) {
			return collyCrawl(at, seeds, pages, p.Workers)
		}},
		{"disk_frontier", func(ctx context.Context, _, folder string) (int, error) {
			return pages, crawler.CrawlOnDisk(ctx, p, folder, seeds, pages)
		}},
	} {
		b.Run(side.name, func(b *testing.B) {
			for b.Loop() {
				folder := b.TempDir()
				at, stop, err := web.Start(b.Context(), shape, folder)
				if err != nil {
					b.Fatal(err)
				}
				runtime.GC()
				before := heap()
				peak := before
				ctx, cancel := context.WithCancel(b.Context())
				var watch sync.WaitGroup
				watch.Go(func() {
					for sut.Pause(ctx, 200*time.Millisecond) {
						peak = max(peak, heap())
					}
				})
				began := time.Now()
				n, err := side.crawl(ctx, at, folder)
				rate := float64(n) / time.Since(began).Seconds()
				cancel()
				watch.Wait()
				if err = errors.Join(err, stop()); err != nil {
					b.Fatal(err)
				}
				if base == 0 {
					base = rate
				}
				b.ReportMetric(rate, "pages/s")
				b.ReportMetric(rate/base, "ratio")
				b.ReportMetric(float64(peak-before)/1e6, "peak-MB")
				b.ReportMetric(0, "ns/op")
			}
		})
	}
}

func heap() uint64 {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapInuse
}

// collyCrawl crawls until so many pages were answered.
func collyCrawl(at string, seeds []string, pages, workers int) (int, error) {
	c := colly.NewCollector(colly.Async(true), colly.UserAgent(web.Agent))
	c.IgnoreRobotsTxt = false
	c.WithTransport(&http.Transport{DisableKeepAlives: true,
		Proxy: http.ProxyURL(&url.URL{Scheme: "http", Host: at})})
	if err := c.Limit(&colly.LimitRule{DomainGlob: "*", Parallelism: workers}); err != nil {
		return 0, err
	}
	var n atomic.Int64
	c.OnRequest(func(r *colly.Request) {
		if n.Load() >= int64(pages) {
			r.Abort()
		}
	})
	c.OnResponse(func(*colly.Response) { n.Add(1) })
	c.OnHTML("a[href]", func(e *colly.HTMLElement) {
		if n.Load() < int64(pages) {
			_ = e.Request.Visit(e.Attr("href")) // what it has seen is an error
		}
	})
	for _, seed := range seeds {
		_ = c.Visit(seed) // as above
	}
	c.Wait()
	return int(n.Load()), nil
}
