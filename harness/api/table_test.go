package api_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"stampede/harness/api"
	"stampede/harness/api/apitest"
	"stampede/harness/history"
	"stampede/harness/sut"
)

// Library lends books. It has what the table of kinds knows.
type Library interface {
	Lend(context.Context, Loan) (Receipt, error)
	Find(context.Context, Search) ([]Book, error)
	Return(context.Context, Returned) (api.Nothing, error)
	Close(context.Context, struct{}) (Closed, error)
	Peek(context.Context, Glance) (Page, error)
}

type (
	Loan struct {
		ID     uint64    `json:"op_id" op:"id" min:"1"`
		Shelf  string    `json:"-" path:"shelf" op:"key" min:"1" max:"9"`
		Reader uint64    `json:"reader" op:"client,reader-" min:"1" max:"99"`
		Due    time.Time `json:"due" op:"arg"`
		Books  []Book    `json:"books" min:"1" max:"3"`
		Note   string    `json:"note,omitempty" max:"5"`
	}
	Book struct {
		Title string `json:"title" min:"1" max:"20"`
		Pages int    `json:"pages" min:"1" max:"5000"`
	}
	Receipt struct {
		Number string `json:"number" op:"key" min:"1"`
		Count  int    `json:"count" op:"value" min:"1"`
	}
	Search struct {
		Shelf string `json:"-" path:"shelf" op:"key" min:"1" max:"9"`
		Most  int    `json:"-" query:"most" op:"arg" default:"5" min:"1" max:"50"`
	}
	Returned struct {
		ID    uint64 `json:"op_id" op:"id" min:"1"`
		Loan  string `json:"-" path:"loan" op:"key" min:"1"`
		State string `json:"state" enum:"good,worn"`
	}
	Closed struct {
		Open    bool    `json:"open" op:"value"`
		Lent    []Book  `json:"lent"`
		Overdue float64 `json:"overdue" min:"0" max:"1"`
	}
	Glance struct {
		Book string `json:"-" path:"book" op:"key" min:"1" max:"20"`
		Page int    `json:"-" query:"page" default:"0" min:"0" max:"5000"`
		Have string `json:"-" header:"If-None-Match" max:"20"`
	}
	Page struct {
		Text  string `json:"text"`
		ETag  string `json:"etag,omitempty" header:"ETag" doc:"what the page is like"`
		Age   int    `json:"age,omitempty" header:"Age"`
		Known bool   `json:"known,omitempty" status:"304" doc:"It is as it was."`
	}
	Start struct {
		Shelves int `json:"shelves" min:"1" max:"9"`
	}
)

// Check refuses what bounds cannot say.
func (l Loan) Check() error {
	if l.Due.Year() < 2000 {
		return errors.New("due: expected a time after 2000")
	}
	return nil
}

// Check refuses a receipt for more books than were asked for.
func (r Receipt) Check(request any) error {
	if asked := len(request.(*Loan).Books); r.Count > asked {
		return fmt.Errorf("asked for %d books, it is for %d", asked, r.Count)
	}
	return nil
}

var errLent = sut.Refusal("lent", "lent to somebody else")

func library() *api.Table[Library] {
	return &api.Table[Library]{System: "library", Title: "Library", About: "Lends books.",
		Kinds: []api.Kind[Library]{
			api.Op("lend", "POST /v1/shelves/{shelf}/loans", Library.Lend,
				api.About{Summary: "Lend.", Reply: "A receipt.", Status: http.StatusCreated}),
			api.Op("find", "GET /v1/shelves/{shelf}", Library.Find, api.About{Summary: "Find."}),
			api.Op("return", "PUT /v1/loans/{loan}", Library.Return, api.About{Summary: "Return."}),
			api.Op("close", "POST /v1/close", Library.Close, api.About{Summary: "Close."}),
			api.Op("peek", "GET /v1/books/{book}", Library.Peek, api.About{Summary: "Peek."}),
		},
		Problems: []api.Problem{{Status: http.StatusConflict, Is: errLent}},
		MaxBody:  4096, Reset: Start{}, ResetMeans: "Empty the shelves.",
		Begin: func(params any) (any, error) { return Start{params.(int)}, nil },
		Audit: Start{}}
}

// TestConform: what a table makes agrees with itself.
func TestConform(t *testing.T) {
	apitest.Agree(t, library(), 1, Start{1})
}

// TestRequestsAreChecked: each bound, in lists and parameters too, and what Check says.
func TestRequestsAreChecked(t *testing.T) {
	handler, err := library().Handler(&apitest.Scripted{
		OnDo: func(context.Context, history.Op) (history.Reply, error) {
			return history.Reply{}, errLent
		}}, sut.Config{Params: 1})
	if err != nil {
		t.Fatal(err)
	}
	const (
		book = `{"title":"a","pages":1}`
		good = `{"op_id":1,"reader":2,"due":"2026-01-02T03:04:05Z","books":[` + book + `]}`
	)
	instead := func(old, other string) string { return strings.Replace(good, old, other, 1) }
	for name, c := range map[string]struct {
		method, path, body string
		status             int
		says               string
	}{
		"good":         {"POST", "/v1/shelves/a/loans", good, 409, "lent"},
		"a long shelf": {"POST", "/v1/shelves/abcdefghij/loans", good, 400, "1 to 9 bytes, got 10"},
		"an odd book": {"POST", "/v1/shelves/a/loans", instead(`s":1`, `s":0`), 400,
			"books[0].pages: expected 1 to 5000"},
		"no book": {"POST", "/v1/shelves/a/loans", instead(book, ""), 400,
			"books: expected 1 to 3, got 0"},
		"long ago": {"POST", "/v1/shelves/a/loans", instead("2026", "1926"), 400,
			"due: expected a time after"},
		"a number too":    {"GET", "/v1/shelves/a?most=x", "", 400, "most: expected a number"},
		"too many":        {"GET", "/v1/shelves/a?most=51", "", 400, "expected 1 to 50, got 51"},
		"as many as ever": {"GET", "/v1/shelves/a", "", 409, "lent"},
		"an odd state":    {"PUT", "/v1/loans/a", `{"op_id":1,"state":"lost"}`, 400, "expected good or worn"},
		"another reset":   {"POST", "/v1/reset", `{"shelves":2}`, 409, "in_use"},
		"no reset":        {"POST", "/v1/reset", `{}`, 400, "shelves: it is missing"},
	} {
		w := apitest.Serve(handler, c.method, c.path, c.body)
		if w.Code != c.status || !strings.Contains(w.Body.String(), c.says) {
			t.Errorf("%s: %d %s, want %d %s", name, w.Code, w.Body, c.status, c.says)
		}
	}
}

// TestAnotherAPI: whoever has no such route is told what to speak.
func TestAnotherAPI(t *testing.T) {
	server := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(server.Close)
	target, err := library().Target(server.URL, sut.Config{Params: 1})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = target.Close() })
	const says = "; it must speak the API in systems/library/openapi.yaml"
	if err := target.Prepare(t.Context()); err == nil || !strings.HasSuffix(err.Error(), says) {
		t.Errorf("%v does not say %q", err, says)
	}
}

// TestNumbersAreForTheJudges: a reply whose text is none of those that there are is not
// believed; one whose number cannot be is what the judges are to see.
func TestNumbersAreForTheJudges(t *testing.T) {
	var answer string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusCreated)
		_, _ = w.Write([]byte(answer)) // the client's end is what is tested
	}))
	t.Cleanup(server.Close)
	table := library()
	target, err := table.Target(server.URL, sut.Config{Params: 1})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = target.Close() })
	op := table.Op("lend", Loan{ID: 7, Shelf: "a", Reader: 9, Due: time.UnixMilli(1700000000000),
		Books: []Book{{"t", 3}}})
	answer = `{"number":"L1","count":-3}`
	if reply, err := target.Do(t.Context(), op); err != nil || reply.Value != -3 {
		t.Errorf("%s became %+v, %v", answer, reply, err)
	}
	answer = `{"number":"","count":1}`
	if reply, err := target.Do(t.Context(), op); !errors.Is(err, api.ErrUnknownEffect) {
		t.Errorf("%s became %+v, %v", answer, reply, err)
	}
}

// TestLeftIsFoundOutNowAndThen: a server that does not say what it has left is not audited for
// each question while it has something.
func TestLeftIsFoundOutNowAndThen(t *testing.T) {
	server := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(server.Close)
	table, looks := library(), 0
	table.Left = func(context.Context, *api.Client, any) (int64, string, error) {
		looks++
		return 3, "3 loans", nil
	}
	target, err := table.Target(server.URL, sut.Config{Params: 1})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = target.Close() })
	const times = 50
	for range times {
		if what, err := target.(sut.Backlogger).Quiesced(t.Context()); err != nil || what != "3 loans" {
			t.Fatalf("got %q, %v", what, err)
		}
	}
	if looks == 0 || looks == times {
		t.Errorf("%d looks for %d questions", looks, times)
	}
}

// TestOp: an operation has what the tags say, and what they do not in its body.
func TestOp(t *testing.T) {
	at := time.UnixMilli(1700000000123).UTC()
	loan := Loan{ID: 7, Shelf: "a b", Reader: 9, Due: at, Books: []Book{{"t", 3}}, Note: "n"}
	op := library().Op("lend", loan)
	if op.ID != 7 || op.Key != "a b" || op.Client != "reader-9" || op.Arg != at.UnixMilli() ||
		string(op.Body) != `{"books":[{"title":"t","pages":3}],"note":"n"}` {
		t.Errorf("the operation is %+v, its body %s", op, op.Body)
	}
	back, err := library().Asked(op)
	if got, is := back.(*Loan); err != nil || !is || fmt.Sprint(*got) != fmt.Sprint(loan) {
		t.Errorf("it is read as %+v, %v", back, err)
	}
	for name, change := range map[string]func(*history.Op){
		"no kind":         func(op *history.Op) { op.Kind = "steal" },
		"another name":    func(op *history.Op) { op.Client = "user-9" },
		"no number":       func(op *history.Op) { op.Client = "reader-x" },
		"a high number":   func(op *history.Op) { op.Client = "reader-100" },
		"no body":         func(op *history.Op) { op.Body = nil },
		"a body too few":  func(op *history.Op) { op.Body = []byte(`{"note":"n"}`) },
		"no text at all":  func(op *history.Op) { op.Body = []byte(`{`) },
		"a list for text": func(op *history.Op) { op.Body = []byte(`{"books":[],"note":[]}`) },
	} {
		bad := op
		change(&bad)
		if _, err := library().Do(t.Context(), nil, bad); !errors.Is(err, sut.ErrRefused) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestContradictions: tags that contradict each other are a defect.
func TestContradictions(t *testing.T) {
	for name, make := range map[string]func(){
		"no wildcard": func() {
			api.Op("find", "GET /v1/all", Library.Find, api.About{})
		},
		"the body of a GET": func() {
			api.Op("return", "GET /v1/loans/{loan}", Library.Return, api.About{})
		},
		"repeats nothing": func() {
			api.Op("x", "POST /x", func(Library, context.Context, Start) (struct {
				Of int `json:"of" echo:"key"`
			}, error) {
				panic("never called")
			}, api.About{})
		},
		"in two places": func() {
			api.Op("x", "GET /x/{a}", func(Library, context.Context, struct {
				A int `json:"a" path:"a"`
			}) (api.Nothing, error) {
				panic("never called")
			}, api.About{})
		},
	} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s: no panic", name)
				}
			}()
			make()
		}()
	}
}

// FuzzRequest: whatever is sent to whatever path is answered, and nothing is performed that is
// out of its bounds.
func FuzzRequest(f *testing.F) {
	for _, e := range library().Examples() {
		f.Add(e.Method, e.Target, e.Body)
	}
	f.Add("POST", "/v1/shelves/%2F/loans", `{"op_id":-1}`)
	f.Add("GET", "/v1/shelves/a?most=99999999999999999999", "")
	table := library()
	handler, err := table.Handler(&apitest.Scripted{AuditBody: []byte("{}"),
		OnDo: func(_ context.Context, op history.Op) (history.Reply, error) {
			asked, err := table.Asked(op)
			if err != nil {
				panic(fmt.Sprintf("%+v was performed: %v", op, err))
			}
			if loan, is := asked.(*Loan); is && (len(loan.Books) == 0 || loan.Reader > 99) {
				panic(fmt.Sprintf("%+v was performed", loan))
			}
			return history.Reply{}, errLent
		}}, sut.Config{Params: 1})
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, method, path, body string) {
		req, err := http.NewRequest(method, "http://x"+path, strings.NewReader(body))
		if err != nil || !strings.HasPrefix(path, "/") {
			return
		}
		w := apitest.ServeRequest(handler, req)
		if w.Code < 200 || w.Code > 599 || w.Code == http.StatusInternalServerError {
			t.Errorf("%s %s %s: %d %s", method, path, body, w.Code, w.Body)
		}
	})
}

// onePage is a library of one book, of one page.
type onePage struct{ Library }

func (onePage) Peek(_ context.Context, req Glance) (Page, error) {
	switch {
	case req.Book != "red":
		return Page{}, errLent
	case req.Have == `"1"`:
		return Page{ETag: `"1"`, Age: 7, Known: true}, nil
	}
	return Page{Text: fmt.Sprintf("page %d", req.Page), ETag: `"1"`}, nil
}

// TestHeads: fields in headers and in the status go over HTTP, and not in a body, and a history has
// them.
func TestHeads(t *testing.T) {
	table := library()
	handler, err := table.HandlerOf(onePage{}, sut.Config{Params: 1})
	if err != nil {
		t.Fatal(err)
	}
	w := apitest.Serve(handler, http.MethodGet, "/v1/books/red?page=3", "")
	if got := w.Body.String(); got != `{"text":"page 3"}`+"\n" || w.Header().Get("ETag") != `"1"` {
		t.Errorf("%s, %v", got, w.Header())
	}
	req := httptest.NewRequest(http.MethodGet, "/v1/books/red", nil)
	req.Header.Set("If-None-Match", `"1"`)
	w = apitest.ServeRequest(handler, req)
	if w.Code != http.StatusNotModified || w.Body.Len() > 0 || w.Header().Get("Age") != "7" {
		t.Errorf("%d %s, %v", w.Code, w.Body, w.Header())
	}
	server := httptest.NewServer(handler)
	defer server.Close()
	target, err := table.Target(server.URL, sut.Config{Params: 1})
	if err != nil {
		t.Fatal(err)
	}
	peek := api.Via[Glance, Page](table, "peek", handler)
	for asked, want := range map[Glance]Page{
		{Book: "red", Page: 2}:      {Text: "page 2", ETag: `"1"`},
		{Book: "red", Have: `"0"`}:  {Text: "page 0", ETag: `"1"`},
		{Book: "red", Have: `"1"`}:  {ETag: `"1"`, Age: 7, Known: true},
		{Book: "blue", Have: `"1"`}: {},
	} {
		got, err := peek(t.Context(), asked)
		if got != want || errors.Is(err, errLent) != (asked.Book == "blue") {
			t.Errorf("%+v: %+v, %v; want %+v", asked, got, err, want)
		}
		op := table.Op("peek", asked)
		if back, err := api.RequestOf[Glance](table, op); back != asked || err != nil {
			t.Errorf("%+v comes back as %+v, %v", asked, back, err)
		}
		reply, err := target.Do(t.Context(), op)
		if err != nil {
			reply.Body = []byte("{}")
		}
		if err := json.Unmarshal(reply.Body, &got); got != want || err != nil {
			t.Errorf("%+v over a socket: %+v, %v; want %+v", asked, got, err, want)
		}
	}
	if err := target.Close(); err != nil {
		t.Error(err)
	}
	for _, text := range []string{"in: header\n", "name: If-None-Match", "\"304\":", "ETag:",
		"description: It is as it was."} {
		if !strings.Contains(string(table.OpenAPI()), text) {
			t.Errorf("the description does not have %q", text)
		}
	}
}
