package checkout

import (
	"encoding/json"
	"fmt"
	"time"

	"stampede/harness/api"
	"stampede/harness/history"
	"stampede/harness/keys"
	"stampede/harness/sut"
)

// Operation identities. Scheduled operation i owns the 2048 identities from (i+1)<<11: its user's
// attempt v has those from v<<8. An attempt begins with a join, whose polls follow.
const (
	pollBits    = 8
	attemptBits = 3
	idBits      = pollBits + attemptBits
	pollMask    = 1<<pollBits - 1
	attemptMask = 1<<idBits - 1
)

// hotShare is what wants the hot product, if there is one, and hotTurn how many see the same
// one if it moves.
const (
	hotShare = 0.8
	hotTurn  = 2000
)

// newWorkload makes the operations as a pure function of the seed. Scheduled operations are joins,
// of users or of bots. Who has a token polls until there is an end; who was refused may
// join once more, and some leave when they are to wait. A join or a leave of unknown outcome is
// sent again with the same identity; Op.Arg counts the attempts.
func newWorkload(s *keys.Streams, p Params) sut.Workload {
	w := &workload{p: p, table: API()}
	w.products = s.Skewed(p.Products, p.Skew, hotShare, hotTurn)
	w.addresses, w.botAddresses = s.Uniform(p.IPs), s.Uniform(p.BotIPs)
	w.bots, w.when = s.Coin(), s.Coin()
	w.Resends = sut.Resends{Share: p.Resend, Coin: s.Coin().At, Kinds: []string{KindJoin, KindLeave}}
	w.leave, w.twice = s.Coin(), s.Coin()
	if p.Users > 0 {
		w.users = s.Uniform(p.Users)
	}
	return w
}

// workload decides every question by its own stream of random numbers.
type workload struct {
	sut.Resends
	p     Params
	table *api.Table[Shop]

	products, addresses, botAddresses keys.Source
	users                             keys.Source // nil: user i for operation i

	bots, when, leave, twice keys.Coin
}

// Kinds lists the operation kinds, the main one first.
func (w *workload) Kinds() []string { return []string{KindJoin, KindPoll, KindLeave} }

// Op returns scheduled operation i, a join. That of somebody who joins twice has the user and the
// product of the one before it.
func (w *workload) Op(i uint64) history.Op {
	id := (i + 1) << idBits
	for i > 0 && w.twice.At(i) < w.p.Twice {
		i--
	}
	req := JoinRequest{ID: id, Product: w.products.At(i) + 1}
	if w.bots.At(i) < w.p.Bots {
		req.User, req.IP = fmt.Sprint("bot-", i+1), address(100, w.botAddresses.At(i))
		return w.table.Op(KindJoin, req)
	}
	user := i
	if w.users != nil {
		user = w.users.At(i)
	}
	req.User, req.IP = fmt.Sprint("user-", user+1), address(10, w.addresses.At(user))
	return w.table.Op(KindJoin, req)
}

// address is one of a network.
func address(network int, n uint64) string {
	return fmt.Sprintf("%d.%d.%d.%d", network, n>>16&255, n>>8&255, n&255)
}

// Follow returns what an operation brings about.
func (w *workload) Follow(
	op history.Op, outcome history.Outcome, reply history.Reply,
) []sut.FollowUp {
	switch {
	case outcome == history.Unknown && op.Kind != KindPoll && op.Arg < int64(w.p.Retry):
		op.Arg++
		return []sut.FollowUp{{After: 100 * time.Millisecond << op.Arg, Op: op}} // doubles each time
	case op.Kind == KindJoin:
		return w.joined(op, outcome, reply)
	case op.Kind == KindLeave && outcome != history.Refused:
		return nil // the user has gone
	}
	var p Progress
	if outcome == history.OK && json.Unmarshal(reply.Body, &p) != nil {
		return nil
	}
	switch {
	case outcome == history.OK && final(p.State):
		return nil // with its answer the user goes
	case outcome == history.Refused && op.Kind == KindPoll && op.ID&pollMask > 1:
		return nil
	case p.State == waiting && op.ID&pollMask == 1 && w.leave.At(op.ID) < w.p.Leave:
		return []sut.FollowUp{{Op: w.table.Op(KindLeave, LeaveRequest{ID: op.ID + 1, Token: op.Key})}}
	}
	return w.poll(op.ID, op.Key)
}

func (w *workload) joined(
	op history.Op, outcome history.Outcome, reply history.Reply,
) []sut.FollowUp {
	switch outcome {
	case history.OK:
		return w.poll(op.ID, reply.Key)
	case history.Refused:
		return w.again(op)
	}
	return nil
}

// poll is the next one about a token.
func (w *workload) poll(id uint64, token string) []sut.FollowUp {
	if id&pollMask >= uint64(min(w.p.Polls, pollMask)) {
		return nil
	}
	pause := (0.5 + w.when.At(id)) * float64(w.p.PollEvery.D())
	return []sut.FollowUp{{After: time.Duration(pause),
		Op: w.table.Op(KindPoll, PollRequest{ID: id + 1, Token: token})}}
}

// again is another attempt of a user who was refused.
func (w *workload) again(op history.Op) []sut.FollowUp {
	attempt := op.ID & attemptMask >> pollBits
	next, err := api.RequestOf[JoinRequest](w.table, op)
	if err != nil || attempt >= uint64(w.p.ComeBack) {
		return nil
	}
	next.ID = op.ID + 1<<pollBits
	pause := (1 + 2*w.when.At(next.ID)) * float64(w.p.PollEvery.D())
	return []sut.FollowUp{{After: time.Duration(pause), Op: w.table.Op(KindJoin, next)}}
}
