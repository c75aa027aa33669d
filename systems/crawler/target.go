package crawler

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/url"
	"sync"

	"stampede/harness/sut"
	"stampede/systems/crawler/web"
)

// foreign is a crawler that somebody else wrote, by its URL. This process serves its web from
// Prepare to Close, and adds the web's log to its audit.
type foreign struct {
	server
	params Params
	folder string
	stop   func() error // once; nil before Prepare
}

// server is what the harness asks of an instance of the API somewhere else.
type server interface {
	sut.Instance
	sut.Backlogger
	Base() string
	Reset(ctx context.Context, body any) error
}

// target makes a client of the crawler at a URL. Prepare starts its web, which keeps its files in
// cfg.Folder.
func target(baseURL string, cfg sut.Config) (sut.Instance, error) {
	inst, err := API().Target(baseURL, cfg)
	if err != nil {
		return nil, err
	}
	p, err := sut.ParamsOf[Params](cfg.Params)
	return &foreign{server: inst.(server), params: p, folder: cfg.Folder}, err
}

// Prepare starts a web, and asks the server to begin anew in it.
func (f *foreign) Prepare(ctx context.Context) error {
	base, err := url.Parse(f.Base())
	if err != nil {
		return fmt.Errorf("starting a web: %w", err)
	}
	if ip := net.ParseIP(base.Hostname()); base.Hostname() != "localhost" && !ip.IsLoopback() {
		return fmt.Errorf("%s is another machine, and the web that judges listens on the loopback of "+
			"this one: run stampede where the crawler runs", base.Hostname())
	}
	begin, err := API().Begin(f.params)
	if err != nil {
		return err
	}
	reset := begin.(ResetRequest)
	proxy, stop, err := web.Start(ctx, f.params.Web(), f.folder)
	if err != nil {
		return err
	}
	reset.Proxy, f.stop = proxy, sync.OnceValue(stop)
	return f.Reset(ctx, reset)
}

// Audit asks the server, and adds the web's log once the web has ended: then it has all requests,
// and nothing is answered that the server could not tell of.
func (f *foreign) Audit(ctx context.Context) (json.RawMessage, error) {
	told, err := f.server.Audit(ctx)
	var all map[string]json.RawMessage
	if err != nil || f.stop == nil || json.Unmarshal(told, &all) != nil || all == nil {
		return told, err // the judges reject a malformed audit
	}
	if err := f.stop(); err != nil {
		return nil, err
	}
	log, err := web.ReadLog(f.folder)
	if err != nil {
		return nil, err
	}
	if all["log"], err = json.Marshal(log); err != nil {
		return nil, fmt.Errorf("adding the web's log: %w", err)
	}
	return json.Marshal(all)
}

// Close ends the web.
func (f *foreign) Close() error {
	err := f.server.Close()
	if f.stop != nil {
		err = errors.Join(err, f.stop())
	}
	return err
}
