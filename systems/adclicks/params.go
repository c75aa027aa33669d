package adclicks

import (
	"errors"
	"fmt"
	"time"

	"stampede/harness/bounds"
	"stampede/harness/sut"
)

// Params are the workload's parameters and the rules of the count. Durations of events are event
// time, in which event_rate clicks happen each second.
type Params struct {
	Campaigns int `json:"campaigns" min:"1" max:"1000" doc:"how many campaigns there are"`
	Ads       int `json:"ads" min:"1" max:"100" doc:"ads of each campaign"`
	Users     int `json:"users" min:"1" max:"100000000" doc:"how many users click; each has an address"`
	Budget    int `json:"budget" min:"1" max:"1000000000" doc:"cents that each campaign may spend"`
	Slice     int `json:"slice" min:"1" max:"1000000000" doc:"cents of a budget that an API process takes at once; so much may be spent beyond a budget"`
	Price     int `json:"price" min:"1" max:"1000000" doc:"the most that a click costs, in cents"`

	EventRate float64      `json:"event_rate" min:"1e-3" max:"1e6" doc:"clicks per second of event time"`
	Disorder  sut.Duration `json:"disorder" min:"0s" max:"24h" doc:"by how much later than others clicks come that are in time"`
	LateShare float64      `json:"late" min:"0" max:"1" doc:"share of clicks that come late"`
	LateBy    sut.Duration `json:"late_by" min:"0s" max:"24h" doc:"the most by which they are late"`
	Farm      float64      `json:"farm" min:"0" max:"1" doc:"share of clicks that are a click farm's"`
	FarmIPs   int          `json:"farm_ips" min:"1" max:"1000" doc:"its addresses"`

	Twice       float64      `json:"twice" min:"0" max:"1" doc:"share of clicks that a browser reports twice in a row"`
	Resend      float64      `json:"resend" min:"0" max:"1" doc:"share of clicks that are sent twice, half of them together"`
	Replayed    float64      `json:"replayed" min:"0" max:"1" doc:"share of clicks that are replayed long after their answer, in a request of their own"`
	ReplayAfter sut.Duration `json:"replay_after" min:"0s" max:"1h" doc:"how long after, in real time"`
	Retry       int          `json:"retry" min:"0" max:"15" doc:"how often a click of unknown outcome is sent again"`
	Dashboards  float64      `json:"dashboards" min:"0" max:"1" doc:"share of clicks that a look at the campaign's dashboard follows"`
	Reconcile   int          `json:"reconcile_every" min:"0" doc:"after so many clicks everything is reconciled; 0 means never"`
	Reprocess   int          `json:"reprocess_every" min:"0" doc:"after so many clicks the log is processed from offset 0; 0 means never"`

	Window    sut.Duration `json:"window" min:"10ms" max:"24h" doc:"length of a window, in event time (60s in production)"`
	Lateness  sut.Duration `json:"lateness" min:"0s" max:"24h" doc:"by how much the watermark is behind the latest click, in event time"`
	Horizon   sut.Duration `json:"horizon" min:"0s" max:"24h" doc:"for how long a closed window may be corrected, in event time"`
	FraudMost int          `json:"fraud_most" min:"1" max:"1000000" doc:"clicks on an ad that an address may make in a window"`

	BloomClicks int     `json:"bloom_clicks" min:"1" max:"1000000000" doc:"clicks for which the filter of an API process is made"`
	BloomFalse  float64 `json:"bloom_false" min:"1e-6" max:"0.5" doc:"share of new clicks that it takes for known ones when it is full"`

	FlushEvery     sut.Duration `json:"flush_every" min:"1ms" max:"1m" doc:"how often results are stored, in real time"`
	ArchiveEvery   sut.Duration `json:"archive_every" min:"1ms" max:"1m" doc:"how often a file is archived, in real time"`
	BatchEvery     sut.Duration `json:"batch_every" min:"1ms" max:"1m" doc:"how often the archive is recounted by designs that live by it"`
	SessionTimeout sut.Duration `json:"session_timeout" min:"1s" max:"1h" doc:"silence after which a consumer loses its partitions, in real time"`
	LagWithin      sut.Duration `json:"lag_within" min:"1ms" max:"1h" doc:"how long an acknowledged click may wait in the log for its consumer, in real time"`
	FreshWithin    sut.Duration `json:"fresh_within" min:"1ms" max:"1h" doc:"how old a dashboard may be, in real time (2m in production)"`
}

// DefaultParams are windows of a second instead of a minute, and all else sixty times as fast too.
func DefaultParams() Params {
	ms := func(n int) sut.Duration { return sut.Duration(time.Duration(n) * time.Millisecond) }
	return Params{Campaigns: 20, Ads: 3, Users: 20_000, Budget: 100_000, Slice: 500, Price: 50,
		EventRate: 400, Disorder: ms(200), LateShare: 0.05, LateBy: ms(6000), Farm: 0.05, FarmIPs: 2,
		Twice: 0.05, Resend: 0.05, Replayed: 0.03, ReplayAfter: ms(1500), Retry: 5, Dashboards: 0.05,
		Reconcile: 1000, Reprocess: 1500,
		Window: ms(1000), Lateness: ms(500), Horizon: ms(3000), FraudMost: 10,
		BloomClicks: 10_000, BloomFalse: 0.01,
		FlushEvery: ms(100), ArchiveEvery: ms(500), BatchEvery: ms(1000), SessionTimeout: ms(4000),
		LagWithin: ms(5000), FreshWithin: ms(5000)}
}

// Validate returns every bad field at once, each named as in a scenario, or nil.
func (p Params) Validate() error {
	errs := []error{bounds.Check(p)}
	if p.Price > p.Slice {
		errs = append(errs, fmt.Errorf("slice: expected at least price (%d), got %d", p.Price, p.Slice))
	}
	return errors.Join(errs...)
}

// rules are those of the count.
func (p Params) rules() rules {
	return rules{window: p.Window.D().Milliseconds(), lateness: p.Lateness.D().Milliseconds(),
		horizon: p.Horizon.D().Milliseconds(), fraudMost: p.FraudMost}
}
