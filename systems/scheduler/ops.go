package scheduler

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"time"

	"stampede/harness/history"
	"stampede/harness/sut"
)

// listLimit is how many tasks a list has at most.
const listLimit = 20

// opOf is the operation that schedules a task. Its body is the number of tries
// before it and the Spec as JSON.
func opOf(req Request, tries int) history.Op {
	spec, err := json.Marshal(req.Spec)
	if err != nil {
		panic(err) // numbers and texts
	}
	return history.Op{ID: req.ID, Kind: KindSchedule, Key: req.Queue, Client: req.Client,
		Arg: req.At.UnixMilli(), Body: append([]byte{byte(tries)}, spec...)}
}

// requestOf reads what opOf writes.
func requestOf(op history.Op) (req Request, tries int, err error) {
	req = Request{ID: op.ID, Queue: op.Key, Client: op.Client, At: time.UnixMilli(op.Arg).UTC()}
	if len(op.Body) == 0 {
		return req, 0, fmt.Errorf("operation %d has no body", op.ID)
	}
	dec := json.NewDecoder(bytes.NewReader(op.Body[1:]))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&req.Spec); err != nil {
		return req, 0, fmt.Errorf("the body of operation %d is no task: %w", op.ID, err)
	}
	return req, int(op.Body[0]), nil
}

// taskName is a task's number as operations have it.
func taskName(id uint64) string { return strconv.FormatUint(id, 10) }

func taskOf(name string) (uint64, error) {
	id, err := strconv.ParseUint(name, 10, 64)
	if err != nil || id == 0 {
		return 0, fmt.Errorf("%q: %w", name, ErrUnknownTask)
	}
	return id, nil
}

// perform turns an operation into a call of the scheduler, and the result into a
// reply: the one place that knows both. An unknown kind is refused.
func perform(ctx context.Context, s Scheduler, op history.Op) (history.Reply, error) {
	switch op.Kind {
	case KindSchedule:
		return performSchedule(ctx, s, op)
	case KindTasks:
		list, err := s.Tasks(ctx, op.Key, listLimit)
		return replyWith(list, history.Reply{Value: int64(len(list))}, err)
	case KindCancel, KindPause, KindResume, KindRerun, KindTask, KindAwait:
		id, err := taskOf(op.Key)
		if err != nil {
			return history.Reply{}, err
		}
		return performOn(ctx, s, op, id)
	}
	return history.Reply{}, fmt.Errorf("there is no operation kind %q: %w", op.Kind, sut.ErrRefused)
}

func performSchedule(ctx context.Context, s Scheduler, op history.Op) (history.Reply, error) {
	req, _, err := requestOf(op)
	if err != nil {
		return history.Reply{}, fmt.Errorf("%w: %w", sut.ErrRefused, err)
	}
	scheduled, err := s.Schedule(ctx, req)
	if err != nil {
		return history.Reply{}, err
	}
	return history.Reply{Key: taskName(op.ID), Value: int64(scheduled.DueIn)}, nil
}

func performOn(
	ctx context.Context, s Scheduler, op history.Op, id uint64,
) (history.Reply, error) {
	switch op.Kind {
	case KindTask:
		task, err := s.Task(ctx, id)
		return replyWith(task, history.Reply{Key: string(task.State), Value: int64(len(task.Runs))}, err)
	case KindAwait:
		late, err := s.Await(ctx, id)
		return history.Reply{Value: int64(late)}, err
	}
	state, err := s.Change(ctx, Change{ID: op.ID, Task: id, What: op.Kind})
	return history.Reply{Key: string(state)}, err
}

// replyWith puts what was read into a reply.
func replyWith(read any, reply history.Reply, err error) (history.Reply, error) {
	if err == nil {
		reply.Body, err = json.Marshal(read)
	}
	if err != nil {
		return history.Reply{}, err
	}
	return reply, nil
}
