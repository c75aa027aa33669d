package views

// Rules say which heartbeat is a view. A set of rules never changes; new ones get the next version.
type Rules struct {
	Version        int64    `json:"version,omitempty" min:"0" doc:"given by the server: 1 for those of the reset, then 2 and so on; what a request has here is ignored"`
	MinWatchMS     int64    `json:"min_watch_ms" min:"0" max:"86400000" doc:"how long a session must have been watched, at least"`
	RepeatWindowMS int64    `json:"repeat_window_ms" min:"1" max:"86400000" doc:"length of the aligned windows in which a user has one view of a video"`
	IPViews        int64    `json:"ip_views" min:"1" max:"1000000" doc:"how many views an address has in ip_window_ms"`
	IPWindowMS     int64    `json:"ip_window_ms" min:"1" max:"86400000" doc:"length of the aligned windows of ip_views"`
	Blocked        []string `json:"blocked,omitempty" doc:"addresses whose heartbeats never count"`
	Creators       bool     `json:"creators" doc:"whether creators' own views are rejected"`
}

// Windows are aligned: window n covers event times from n times its length up to, and without, n+1
// times. So each rule is a statement about a set of events, whatever the order in which partitions
// are read: of the candidates in a window, so many count.

// The reasons for which a heartbeat is not a view, in the order in which they are looked for.
const (
	// Bot: its address is on the blocklist.
	Bot = "bot"
	// Creator: it is the creator's of the video.
	Creator = "creator"
	// Short: the session has not been watched for long enough yet.
	Short = "short"
	// Duplicate: it is the heartbeat that made its session a watch, once more.
	Duplicate = "duplicate"
	// Continued: its session was a watch before.
	Continued = "continued"
	// Repeat: the user has a view of the video in the same window.
	Repeat = "repeat"
	// IPRate: its address has had its views in the same window.
	IPRate = "ip-rate"
)

// Reasons lists the reasons in the order in which they are looked for.
func Reasons() []string {
	return []string{Bot, Creator, Short, Duplicate, Continued, Repeat, IPRate}
}

// ruleSet is a version of the rules, ready to be applied.
type ruleSet struct {
	Rules
	blocked map[string]bool
}

func newRuleSet(r Rules) *ruleSet {
	s := &ruleSet{Rules: r, blocked: make(map[string]bool, len(r.Blocked))}
	for _, ip := range r.Blocked {
		s.blocked[ip] = true
	}
	return s
}

// alone is the reason why an event is not a view that can be told from the event alone, or "".
func (s *ruleSet) alone(e *Event, creator string) string {
	switch {
	case s.blocked[e.IP]:
		return Bot
	case s.Creators && creator == e.User:
		return Creator
	case e.WatchedMS < s.MinWatchMS:
		return Short
	}
	return ""
}
