// Package adclicks counts clicks on advertisements, which advertisers pay for. Its question: which
// designs count in real time what an exact recount finds, when clicks come twice, late and from
// click farms, and consumers die?
//
// The API drops most repeated clicks and writes the others to a topic, partitioned by campaign.
// An aggregator decides each click of a partition in the order of the log and adds it to a window
// of event time. The watermark of a partition is its latest event time less the lateness allowed;
// a window is closed when the watermark has passed its end, and changes only by corrections
// then. An archiver writes the log to Parquet files, from which everything can be recounted.
package adclicks

import (
	"context"
	"fmt"
	"net/http"
	"strconv"
	"strings"

	"stampede/harness/api"
	"stampede/harness/sut"
)

// The kinds of operations. A click has its click_id as Op.Key and its user as Op.Client; Op.Arg
// counts its attempts, and Reply.Key is its position in the log. A dashboard is that of the
// campaign Op.Key, and has the clicks as Reply.Value. A reconciliation has the unexplained
// differences as Reply.Value.
const (
	KindClick     = "click"
	KindDashboard = "dashboard"
	KindReconcile = "reconcile"
	KindReplay    = "replay"
)

// The refusals.
var (
	// ErrUnknownCampaign: there is no such campaign.
	ErrUnknownCampaign = sut.Refusal("unknown_campaign", "there is no such campaign")
	// ErrOverBudget: the campaign's budget is spent.
	ErrOverBudget = sut.Refusal("over_budget", "the campaign's budget is spent")
)

// Clicks is the domain interface: what ad servers and advertisers ask for.
type Clicks interface {
	// Click returns when the click is in the log.
	Click(ctx context.Context, req ClickRequest) (Clicked, error)
	// Dashboard reads the figures of a campaign as they are now.
	Dashboard(ctx context.Context, req CampaignRequest) (Figures, error)
	// Reconcile recounts the archive and compares that with real time, click by click.
	Reconcile(ctx context.Context, _ struct{}) (Reconciliation, error)
	// Replay asks that the log be processed from offset 0 once more, and compared byte by byte.
	Replay(ctx context.Context, req ReplayRequest) (api.Nothing, error)
}

// ClickRequest is a click. Requests with the same click_id are the same click in all else.
type ClickRequest struct {
	ID       uint64 `json:"op_id" op:"id" min:"1" max:"9223372036854775807" doc:"the request's number, the same in every attempt"`
	Click    string `json:"click_id" op:"key" min:"1" max:"40" doc:"the click's identity; a later request may repeat it, the same in all but op_id"`
	Campaign string `json:"campaign_id" min:"1" max:"40"`
	Ad       string `json:"ad_id" min:"1" max:"40"`
	User     string `json:"user_id" op:"client" min:"1" max:"40"`
	IP       string `json:"ip" min:"1" max:"40"`
	AtMS     int64  `json:"at_ms" min:"1" max:"99999999999999" doc:"event time in Unix milliseconds, unrelated to the server's clock"`
	Cents    int64  `json:"cents" min:"1" max:"1000000" doc:"the price of the click"`
}

// Clicked is the answer to a click.
type Clicked struct {
	Position string `json:"position" op:"key" max:"40" example:"3/120" doc:"PART/OFFSET, in decimal, of a row of the audit's log that has the click_id, the first such row or another; empty if the server drops a repeated click and does not know where the first one is"`
}

// CampaignRequest is about a campaign.
type CampaignRequest struct {
	Campaign string `json:"-" path:"campaign" op:"key" min:"1" max:"40"`
}

// Figures are what an advertiser sees of a campaign.
type Figures struct {
	Campaign  string `json:"campaign_id" echo:"key" min:"1" max:"40"`
	Clicks    int64  `json:"clicks" op:"value" min:"0" doc:"that are paid for, in all windows"`
	Cents     int64  `json:"cents" min:"0" doc:"their price"`
	Users     int64  `json:"users" min:"0" doc:"about how many users they are of"`
	ThroughMS int64  `json:"through_ms" min:"0" doc:"windows of the campaign that end until then are closed, and their clicks that were on time are in the figures, and so are corrections of those that ended a horizon before it: the watermark after the last decided click of its partition, or any earlier time, such as 0 before a click"`
}

// Reconciliation compares real time with the archive as far as both have come.
type Reconciliation struct {
	Compared    int64    `json:"compared" min:"0" doc:"clicks that both have decided"`
	Pending     int64    `json:"pending" min:"0" doc:"clicks that only one of them has, because the other is behind"`
	Unexplained int64    `json:"unexplained" op:"value" min:"0" doc:"differences that no delay explains"`
	Examples    []string `json:"examples" doc:"the first of them, click by click"`
}

// ReplayRequest asks for a replay.
type ReplayRequest struct {
	ID uint64 `json:"op_id" op:"id" min:"1" max:"9223372036854775807" doc:"the same in every attempt"`
}

// API is what each operation is as a call, in a history and over HTTP.
func API() *api.Table[Clicks] {
	return &api.Table[Clicks]{
		System: "adclicks", Title: "Ad clicks",
		About: "The API of a counter of clicks on advertisements. stampede serves its own designs over " +
			"it, and\njudges any server that implements it.\n\nAll clicks of a campaign are in one " +
			"partition of the log, whose clicks the server decides in order.\nThe watermark is the latest " +
			"event time of the clicks before, less lateness; before the first one no\nwindow has ended. A " +
			"click whose window ended a horizon or longer before the watermark is late; else\none whose " +
			"click_id was counted, corrected or fraud before is a duplicate; else one of a " +
			"campaign's\nad, an IP and a window that have fraud_most counted or corrected clicks is " +
			"fraud; else it is\ncounted, or corrected if the watermark is at its window's end or later.",
		Kinds: []api.Kind[Clicks]{
			api.Op(KindClick, "POST /v1/clicks", Clicks.Click, api.About{
				Summary: "Report a click.", Status: http.StatusAccepted,
				Detail:  "The server answers when the click is in the log. It may drop a repeated one.",
				Reply:   "The click is in the log for good.",
				Refuses: []error{ErrUnknownCampaign, ErrOverBudget}}),
			api.Op(KindDashboard, "GET /v1/campaigns/{campaign}", Clicks.Dashboard, api.About{
				Summary: "Read the figures of a campaign.", Reply: "What is counted so far.",
				Refuses: []error{ErrUnknownCampaign}}),
			api.Op(KindReconcile, "GET /v1/reconciliation", Clicks.Reconcile, api.About{
				Summary: "Recount the archive and compare.",
				Reply:   "The differences, of which delays explain some.", Refuses: []error{}}),
			api.Op(KindReplay, "POST /v1/replays", Clicks.Replay, api.About{
				Summary: "Process the log from offset 0 once more.", Status: http.StatusAccepted,
				Detail:  "The server compares the bytes of both results, and reports both in the audit.",
				Reply:   "It will be done.",
				Refuses: []error{}}),
		},
		Problems: []api.Problem{{Status: http.StatusNotFound, Is: ErrUnknownCampaign},
			{Status: http.StatusPaymentRequired, Is: ErrOverBudget}},
		MaxBody: 4 << 10,
		Reset:   ResetRequest{}, ResetMeans: "Begin with an empty log.",
		Begin: func(params any) (any, error) {
			p, err := sut.ParamsOf[Params](params)
			r := p.rules()
			return ResetRequest{p.Campaigns, p.Budget, p.Slice, r.window, r.lateness, r.horizon,
				r.fraudMost}, err
		},
		PendingMeans: "How many clicks are not decided or not archived, and replays not done.",
		Audit:        Audit{},
	}
}

// ResetRequest asks for a new beginning. The rules are in milliseconds of event time.
type ResetRequest struct {
	Campaigns  int   `json:"campaigns" min:"1" doc:"they are named campaign-1 and so on; 1,000 at most"`
	Budget     int   `json:"budget" min:"1" doc:"cents that each may spend; 1,000,000,000 at most"`
	Slice      int   `json:"slice" min:"1" doc:"cents by which that may be exceeded; no click costs more; 1,000,000,000 at most"`
	WindowMS   int64 `json:"window_ms" min:"1" doc:"a window begins at a multiple of it, in Unix time; a day at most, as lateness_ms and horizon_ms"`
	LatenessMS int64 `json:"lateness_ms" min:"0" doc:"by how much the watermark is behind the latest event time"`
	HorizonMS  int64 `json:"horizon_ms" min:"0" doc:"a window that ended so long before the watermark, or longer, takes no more clicks"`
	FraudMost  int   `json:"fraud_most" min:"1" doc:"counted and corrected clicks on an ad that an IP may have in a window; 1,000,000 at most"`
}

// campaignName is the name of a campaign, from 1.
func campaignName(n int) string { return fmt.Sprint("campaign-", n) }

// has says whether a campaign is one of those that the reset names.
func (p Params) has(campaign string) bool {
	n, err := strconv.Atoi(strings.TrimPrefix(campaign, "campaign-"))
	return err == nil && n > 0 && n <= p.Campaigns && campaign == campaignName(n)
}
