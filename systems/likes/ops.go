package likes

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"stampede/harness/history"
	"stampede/harness/sut"
)

// perform turns an operation into a call, and the result into a reply: the one
// place that knows both. What cannot be understood is refused.
func perform(ctx context.Context, likes Likes, op history.Op) (history.Reply, error) {
	req, err := requestOf(op)
	if err != nil {
		return history.Reply{}, fmt.Errorf("%w: %w", err, sut.ErrRefused)
	}
	switch op.Kind {
	case KindLike:
		return changeReply(likes.Like(ctx, req))
	case KindUnlike:
		return changeReply(likes.Unlike(ctx, req))
	case KindView:
		return history.Reply{}, likes.View(ctx, req)
	case KindCount:
		count, err := likes.Count(ctx, req)
		if err != nil {
			return history.Reply{}, err
		}
		body, err := json.Marshal(count)
		return history.Reply{Value: count.Count, Body: body}, err
	}
	return history.Reply{}, fmt.Errorf("operation kind %q is not one of %s, %s, %s, %s: %w",
		op.Kind, KindLike, KindUnlike, KindCount, KindView, sut.ErrRefused)
}

func changeReply(c Change, err error) (history.Reply, error) {
	if err != nil || !c.Changed {
		return history.Reply{}, err
	}
	return history.Reply{Value: 1}, nil
}

func requestOf(op history.Op) (Request, error) {
	video, err := number(videoPrefix, op.Key)
	user, userErr := number(userPrefix, op.Client)
	return Request{OpID: op.ID, Video: video, User: user}, errors.Join(err, userErr)
}

// opOf is the reverse of requestOf.
func opOf(kind string, req Request) history.Op {
	return history.Op{
		ID: req.OpID, Kind: kind, Key: VideoKey(req.Video), Client: UserName(req.User)}
}
