package api

import (
	"context"
	"net/http"
	"strings"
)

// Kind is one operation of an API whose domain interface is S. Op makes it.
type Kind[S any] struct {
	// Name is the kind of the operations in a history.
	Name string

	method, path string
	about        About
	request      *shape
	reply        *shape
	others       []other
	// call takes a pointer to a request and returns one to a reply.
	call func(ctx context.Context, s S, request any) (reply any, err error)
}

// About describes an operation to those who write a server or a client of their own.
type About struct {
	// ID is the operation's identity in the description; "" means the name of the kind.
	ID string
	// Summary is one line, Detail what else there is to know, Reply what a success says.
	Summary, Detail, Reply string
	// Status is that of a success; 0 means 200, or 204 if the reply is Nothing.
	Status int
	// Refuses lists the documented problems of the table that this operation may end with;
	// nil means all of them.
	Refuses []error
}

// Nothing is the reply of an operation that answers with its status alone.
type Nothing struct{}

// Op makes a kind of a method of the domain interface:
//
//	api.Op("like", "POST /v1/likes", Likes.Like, api.About{Summary: "Like a video."})
//
// A request is a structure, a reply a structure, a slice or Nothing. Tags of their fields say
// what the table derives everything from:
//
//   - json is the name in a body, as always; a field without omitempty must be there.
//   - path and query name the wildcard of the route or the parameter that holds the field
//     instead of the body, where its json is "-". A default tag makes a parameter optional.
//   - header names the header of HTTP that holds the field instead of the body, in a request
//     that of a parameter; empty ones are left out. On a field of a reply, a truth value, status
//     is that of an answer without a body, of which it is true, such as status:"304".
//   - op says where a history keeps it: id, key, client or arg of an operation, key or value
//     of a reply; sign, a truth value, is the sign of a positive arg: false is negative. A
//     number in a key or client has a prefix there: op:"key,video-" makes "video-7" of 7. The
//     value of a list is its length. What has no op tag is kept as JSON in the body, or as a
//     request keeps it that is an encoding.BinaryAppender and BinaryUnmarshaler; what is there
//     and not known is skipped when a stored run is read.
//   - min, max and enum are its bounds; see package bounds. What a server is asked must be in
//     them, and the texts of a reply; its numbers are for the judges to see. doc describes it,
//     and an example of a text is one that Check accepts; example:"" leaves a field out of
//     examples.
//   - echo on a field of a reply names the op tag of the field of the request that it repeats.
//     A reply that does not is not believed.
//
// A request with a method Check() error, and a reply with Check(request any) error, check
// what bounds cannot say. Tags that contradict each other are a defect: Op panics.
func Op[S, Req, Resp any](
	name, route string, do func(S, context.Context, Req) (Resp, error), about About,
) Kind[S] {
	method, path, _ := strings.Cut(route, " ")
	k := Kind[S]{Name: name, method: method, path: path, about: about,
		request: shapeOf[Req](method, path), reply: replyOf[Resp](),
		call: func(ctx context.Context, s S, request any) (any, error) {
			reply, err := do(s, ctx, *request.(*Req))
			return &reply, err
		}}
	if k.about.ID == "" {
		k.about.ID = name
	}
	if k.about.Status == 0 {
		k.about.Status = http.StatusOK
		if k.reply.empty() {
			k.about.Status = http.StatusNoContent
		}
	}
	k.reply.echoes(k.request)
	return k
}

// other is another route to the operations of a kind, for clients that are not ours.
type other struct {
	method, path string
	about        About
	request      *shape
	// as makes a pointer to the kind's request of one to what was asked for.
	as func(asked any) (request any)
}

// Also adds another route to a kind, which asks for the same in another way: as makes the
// kind's request of what is asked for, Req. With the status 204 it answers nothing.
func Also[S, Asked, Req any](
	k Kind[S], route string, as func(Asked) Req, about About,
) Kind[S] {
	method, path, _ := strings.Cut(route, " ")
	if about.Status == 0 {
		about.Status = k.about.Status
	}
	k.others = append(k.others, other{method: method, path: path, about: about,
		request: shapeOf[Asked](method, path), as: func(asked any) any {
			req := as(*asked.(*Asked))
			return &req
		}})
	return k
}
