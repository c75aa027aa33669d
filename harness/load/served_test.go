package load_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
	"github.com/valyala/fasthttp"

	"stampede/harness/api"
	"stampede/harness/arrival"
	"stampede/harness/history"
	"stampede/harness/load"
	"stampede/harness/sut"
)

type (
	// purchase is what a buyer asks of a shop, and order what one gets.
	purchase struct {
		OpID  uint64 `json:"op_id" op:"id" min:"1"`
		Item  string `json:"item" op:"key" min:"1" max:"256"`
		Buyer string `json:"buyer" op:"client" min:"1" max:"256"`
	}
	order struct {
		ID   string `json:"order" op:"key" min:"1"`
		Unit int64  `json:"unit" op:"value" min:"0"`
	}
	seller interface {
		Buy(context.Context, purchase) (order, error)
	}
)

func shopTable() *api.Table[seller] {
	return &api.Table[seller]{System: "shop", MaxBody: 1000, Audit: struct{}{},
		Kinds: []api.Kind[seller]{api.Op("buy", "POST /v1/buy", seller.Buy,
			api.About{Status: http.StatusCreated})},
		Begin: func(any) (any, error) { return struct{}{}, nil }}
}

// purchases are as many as there are buyers.
func purchases() sut.Workload {
	return sut.OneKind("buy", func(i uint64) history.Op {
		return history.Op{ID: (i + 1) << 8, Kind: "buy", Key: "item-1",
			Client: "buyer-" + strconv.FormatUint(i+1, 10)}
	})
}

// plainShop is a shop as anybody writes it with net/http: every buy gets an order.
func plainShop() http.Handler {
	var orders atomic.Int64
	mux := http.NewServeMux()
	mux.HandleFunc("POST /v1/buy", func(w http.ResponseWriter, r *http.Request) {
		var req purchase
		if err := json.NewDecoder(r.Body).Decode(&req); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusCreated)
		n := orders.Add(1)
		_ = json.NewEncoder(w).Encode(order{ID: fmt.Sprint("order-", n), Unit: n})
	})
	return mux
}

// answered is what became of a load: how many answers came in a second, and how long they took
// since they were due.
type answered struct {
	rate  float64
	since *hdrhistogram.Histogram
}

func newAnswered() answered { return answered{since: hdrhistogram.New(1, int64(time.Minute), 3)} }

func (s answered) at(q float64) float64 {
	return float64(s.since.ValueAtQuantile(q)) / float64(time.Millisecond)
}

const (
	servedUsers = 64
	servedOver  = 3 * time.Second
	servedWarm  = 500 * time.Millisecond
)

// byStampede sends buys as a run does: workload, client, history. A rate of 0 is as fast as
// servedUsers can.
func byStampede(b *testing.B, address string, rate float64) answered {
	b.Helper()
	inst, err := shopTable().Target("http://"+address, sut.Config{MaxConns: 512,
		Timeout: 5 * time.Second})
	if err != nil {
		b.Fatal(err)
	}
	defer inst.Close()
	path := filepath.Join(b.TempDir(), "history")
	w, err := history.Create(path, history.Header{})
	if err != nil {
		b.Fatal(err)
	}
	plan := load.Plan{Base: time.Now(), Workload: purchases(), Timeout: 5 * time.Second,
		MaxInFlight: servedUsers, Queue: 4096, Drain: 10 * time.Second}
	if rate == 0 {
		plan.Users, plan.Duration = servedUsers, servedOver
	} else {
		process, err := arrival.Constant(rate, servedOver)
		if err != nil {
			b.Fatal(err)
		}
		plan.Arrivals = process.Start(1)
	}
	res, err := load.Run(b.Context(), plan, inst.Do,
		func() load.Recorder { return w.Shard() }, nil)
	if err == nil {
		err = w.Close()
	}
	if err != nil || res.Load.OK != res.Load.Started {
		b.Fatalf("%+v: %v", res.Load, err)
	}
	return recorded(b, path, res.Start)
}

// recorded reads what became of a load from its history.
func recorded(b *testing.B, path string, start time.Duration) answered {
	b.Helper()
	h, err := history.Open(path)
	if err != nil {
		b.Fatal(err)
	}
	defer h.Close()
	out, from, last := newAnswered(), start+servedWarm, start
	for r, err := range h.All() {
		if err != nil {
			b.Fatal(err)
		}
		if r.Intended >= from {
			_ = out.since.RecordValue(int64(r.End - r.Intended))
		}
		last = max(last, r.End)
	}
	out.rate = float64(out.since.TotalCount()) / (last - from).Seconds()
	return out
}

// bare sends the same bytes over connections of its own, with absolute deadlines, and looks at
// nothing of an answer but its status: what a generator at least costs.
func bare(b *testing.B, address string, rate float64) answered {
	b.Helper()
	var all sync.WaitGroup
	var mu sync.Mutex
	out := newAnswered()
	begin := time.Now().Add(10 * time.Millisecond)
	last := begin
	for n := range servedUsers {
		all.Go(func() {
			mine, end := bareUser(b.Context(), b, address, begin, n, rate)
			mu.Lock()
			defer mu.Unlock()
			out.since.Merge(mine.since)
			if end.After(last) {
				last = end
			}
		})
	}
	all.Wait()
	out.rate = float64(out.since.TotalCount()) / last.Sub(begin.Add(servedWarm)).Seconds()
	return out
}

// bareUser is the n-th of servedUsers: it sends every servedUsers-th request.
func bareUser(
	ctx context.Context, b *testing.B, address string, begin time.Time, n int, rate float64,
) (out answered, end time.Time) {
	out = newAnswered()
	client := &fasthttp.HostClient{Addr: address, MaxConns: 1, NoDefaultUserAgentHeader: true,
		MaxIdemponentCallAttempts: 1}
	defer client.CloseIdleConnections()
	req, resp := fasthttp.AcquireRequest(), fasthttp.AcquireResponse()
	defer fasthttp.ReleaseRequest(req)
	defer fasthttp.ReleaseResponse(resp)
	req.Header.SetMethod("POST")
	req.Header.SetUserAgent("stampede")
	req.Header.SetContentType("application/json")
	req.SetRequestURI("http://" + address + "/v1/buy")
	end = begin
	var body bytes.Buffer
	for i := n; ctx.Err() == nil; i += servedUsers {
		due := time.Now()
		if rate > 0 {
			due = begin.Add(time.Duration(float64(i) / rate * float64(time.Second)))
			time.Sleep(time.Until(due))
		}
		if due.Sub(begin) >= servedOver {
			break
		}
		body.Reset()
		fmt.Fprintf(&body, `{"op_id":%d,"item":"item-1","buyer":"buyer-%d"}`, (i+1)<<8, i+1)
		req.SetBodyRaw(body.Bytes())
		if err := client.DoDeadline(req, resp, due.Add(5*time.Second)); err != nil ||
			resp.StatusCode() != http.StatusCreated {
			b.Errorf("the bare loop: %v, %d", err, resp.StatusCode())
			break
		}
		if end = time.Now(); due.Sub(begin) >= servedWarm {
			_ = out.since.RecordValue(int64(end.Sub(due)))
		}
	}
	return out, end
}

// BenchmarkServed compares an operation over HTTP from end to end (workload, client, history)
// with a bare loop that sends the same bytes to the same plain net/http shop on the same cores
// over as many connections, turn by turn: how many a second both get out of it, and the times
// at 64 % of what the bare loop gets. The figures are medians. The aims are 80 % of its rate
// and 1.5 times its p99.
func BenchmarkServed(b *testing.B) {
	address := startServer(b, serveShop)
	const aimRate, aimTail, turns = 0.8, 1.5, 5
	seen := map[string][]float64{}
	note := func(name string, value float64) { seen[name] = append(seen[name], value) }
	for range turns * b.N {
		most, ours := bare(b, address, 0), byStampede(b, address, 0)
		note("bare/s", most.rate)
		note("stampede/s", ours.rate)
		note("rate-ratio", ours.rate/most.rate)
		rate := most.rate * aimRate * 0.8
		lone, whole := bare(b, address, rate), byStampede(b, address, rate)
		note("open/s", rate)
		for _, q := range []float64{50, 99} {
			note(fmt.Sprintf("bare-p%.0f-ms", q), lone.at(q))
			note(fmt.Sprintf("stampede-p%.0f-ms", q), whole.at(q))
		}
		note("p99-ratio", whole.at(99)/lone.at(99))
	}
	median := func(name string) float64 {
		slices.Sort(seen[name])
		return seen[name][len(seen[name])/2]
	}
	for name := range seen {
		b.ReportMetric(median(name), name)
	}
	met := 0.0
	if median("rate-ratio") >= aimRate && median("p99-ratio") <= aimTail {
		met = 1
	}
	b.ReportMetric(met, "met")
	b.ReportMetric(0, "ns/op") // how long a turn is was chosen, not measured
}
