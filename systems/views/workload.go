package views

import (
	"encoding/json"
	"fmt"
	"strconv"
	"time"

	"stampede/harness/history"
	"stampede/harness/keys"
	"stampede/harness/sut"
)

// Operation identities. Scheduled operation i owns the 256 identities from (i+1)<<8: heartbeat n of
// its session has n, its reads of counts slotRead and up.
const (
	idBits   = 8
	idMask   = 1<<idBits - 1
	slotRead = 0x80
)

// retryPause is the pause before a heartbeat is sent again; it doubles.
const retryPause = 50 * time.Millisecond

// beginMS is the event time at which the first session begins, in Unix
// milliseconds: 5 January 2026, 10:00 UTC.
const beginMS = 1_767_607_200_000

// perAddress users share an address.
const (
	perAddress  = 3
	blockedBots = 8
)

// VideoKey names the n-th video, from 1: "video-1".
func VideoKey(n int) string { return "video-" + strconv.Itoa(n) }

// creatorOf names who made the n-th video.
func creatorOf(n int) string { return "creator-" + strconv.Itoa(n) }

// botAddresses are the addresses on the blocklist from the beginning.
func botAddresses() []string {
	list := make([]string, blockedBots)
	for i := range list {
		list[i] = "192.0.2." + strconv.Itoa(i+1)
	}
	return list
}

func farmAddress(n int) string { return fmt.Sprintf("198.51.%d.%d", n/250, n%250+1) }

// newWorkload makes people watch videos as a pure function of the seed.
//
// A scheduled operation is the first heartbeat of a session; operation i happens at event time i /
// EventRate after the beginning. The others follow from it, HeartbeatEvery apart. Some sessions end
// before they count, some repeat what the same user watched just before, some are creators', bots'
// on the blocklist, or come from the few addresses of a click farm. Of the first heartbeats that
// may count, one in ten comes at exactly 10 s.
//
// A heartbeat of unknown outcome is sent again with the same identity, up to RetryOnLost times;
// some are sent twice in any case (Resend). Reads of counts follow from first heartbeats. At
// RulesAfter the operation is a change of the rules, at ReprocessAfter the demand to count again.
func newWorkload(s *keys.Streams, p Params) sut.Workload {
	w := &workload{p: p, pair: s.Coin(), kind: s.Coin(), length: s.Coin(), watched: s.Coin(),
		address: s.Coin(), reads: s.Coin(), readAt: s.Coin(),
		users: s.Uniform(p.Users)}
	w.videos = s.Skewed(p.Videos, p.VideoSkew, p.HotShare, 0)
	w.Resends = sut.Resends{Share: p.Resend, Coin: s.Coin().At, Kinds: []string{KindHeartbeat}}
	return w
}

// workload decides every question by its own stream of random numbers.
type workload struct {
	sut.Resends
	p             Params
	users, videos keys.Source

	pair, kind, length, watched, address, reads, readAt keys.Coin
}

// Kinds lists the operation kinds, the main one first.
func (w *workload) Kinds() []string {
	return []string{KindHeartbeat, KindViews, KindRules, KindReprocess}
}

// Op returns scheduled operation i.
func (w *workload) Op(i uint64) history.Op {
	id := (i + 1) << idBits
	switch {
	case i > 0 && i == uint64(w.p.RulesAfter):
		return w.newRules(id)
	case i > 0 && i == uint64(w.p.ReprocessAfter):
		return history.Op{ID: id, Kind: KindReprocess}
	}
	return opOf(w.first(i), 0)
}

// newRules blocks the farm.
func (w *workload) newRules(id uint64) history.Op {
	rules := w.p.rules()
	for n := range w.p.FarmAddresses {
		rules.Blocked = append(rules.Blocked, farmAddress(n))
	}
	body, err := json.Marshal(rules)
	if err != nil {
		panic(err) // numbers and texts
	}
	return history.Op{ID: id, Kind: KindRules, Body: body}
}

// first is the first heartbeat of session i.
func (w *workload) first(i uint64) Heartbeat {
	h := Heartbeat{
		ID: (i + 1) << idBits, Session: "s" + strconv.FormatUint(i+1, 36),
		Device: [...]string{"mobile", "web", "tv"}[i%3],
		TimeMS: beginMS + int64(float64(i)*1000/w.p.EventRate),
	}
	// Session 2k+1 sometimes watches again what session 2k watched.
	who := i
	if i%2 == 1 && w.pair.At(i) < 2*w.p.Return {
		who = i - 1
	}
	video, user := w.videos.At(who), w.users.At(who)
	h.Video, h.User = VideoKey(int(video)+1), "u"+strconv.FormatUint(user+1, 36)
	home := user / perAddress
	h.IP = fmt.Sprintf("10.%d.%d.%d", home>>16&255, home>>8&255, home&255)
	kind := w.kind.At(who)
	switch creators, bots := w.p.Creators, w.p.Bots; {
	case kind < creators:
		h.User = creatorOf(int(video) + 1)
	case kind < creators+bots:
		h.IP = botAddresses()[int(w.address.At(i)*blockedBots)]
	case kind < creators+bots+w.p.Farm:
		h.IP = farmAddress(int(w.address.At(i) * float64(w.p.FarmAddresses)))
	}
	h.WatchedMS = w.watchedFirst(i).Milliseconds()
	return h
}

// watchedFirst is how much has been watched at the first heartbeat: a whole number of tenths of
// MinWatch; all of it, one time in ten, if the session is not brief.
func (w *workload) watchedFirst(i uint64) time.Duration {
	tenth := w.p.MinWatch.D() / 10
	u := w.watched.At(i)
	if w.brief(i) {
		return tenth * time.Duration(1+int(u*9))
	}
	return tenth * time.Duration(1+int(u*10))
}

func (w *workload) brief(i uint64) bool { return w.length.At(i) < w.p.Brief }

// heartbeats is how many heartbeats session i has.
func (w *workload) heartbeats(i uint64) uint64 {
	if w.brief(i) {
		return 1
	}
	u := (w.length.At(i) - w.p.Brief) / (1 - w.p.Brief)
	return 1 + uint64(u*float64(w.p.Heartbeats))
}

// Follow returns what an operation brings about.
func (w *workload) Follow(
	op history.Op, outcome history.Outcome, _ history.Reply,
) []sut.FollowUp {
	if op.Kind != KindHeartbeat || outcome == history.Dropped {
		return nil
	}
	h, tries, err := heartbeatOf(op)
	if err != nil {
		return nil
	}
	var next []sut.FollowUp
	if outcome == history.Unknown && tries < w.p.RetryOnLost {
		next = append(next, sut.FollowUp{After: retryPause << tries, Op: opOf(h, tries+1)})
	}
	if tries > 0 {
		return next // the session goes on from the first sending
	}
	session, n := h.ID>>idBits-1, h.ID&idMask
	if n == 0 {
		next = w.readsOf(next, h)
	}
	if n+1 < w.heartbeats(session) {
		h.ID++
		h.TimeMS += w.p.HeartbeatEvery.D().Milliseconds()
		h.WatchedMS += w.p.HeartbeatEvery.D().Milliseconds()
		next = append(next, sut.FollowUp{After: w.p.clock(w.p.HeartbeatEvery), Op: opOf(h, 0)})
	}
	return next
}

// readsOf spreads reads of the video's count over the time of a session.
func (w *workload) readsOf(next []sut.FollowUp, h Heartbeat) []sut.FollowUp {
	n := int(w.p.ViewReads)
	if w.reads.At(h.ID) < w.p.ViewReads-float64(n) {
		n++
	}
	length := time.Duration(w.p.Heartbeats) * w.p.clock(w.p.HeartbeatEvery)
	for k := range uint64(n) {
		id := h.ID | (slotRead + k)
		next = append(next, sut.FollowUp{
			After: time.Duration(w.readAt.At(id) * float64(length)),
			Op:    history.Op{ID: id, Kind: KindViews, Key: h.Video, Client: h.User},
		})
	}
	return next
}
