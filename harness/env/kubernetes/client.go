package kubernetes

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// answerBound is how long the API server may take to answer.
const answerBound = 20 * time.Second

// cluster is a client of one namespace. Of client-go it has the configuration and the transport:
// the typed clients would bring the types of every API group, 23 MB.
type cluster struct {
	http  *http.Client
	base  *url.URL
	host  string // for people
	place Place
}

// Place is a namespace of a cluster.
type Place struct {
	// Context is that of the configuration (KUBECONFIG); "" is the current one, or the pod's own
	// cluster.
	Context string
	// Namespace is where Jobs are; "" is the context's, or the pod's.
	Namespace string
}

// Resolve says which place that is now. It sends no request.
func (p Place) Resolve() (Place, error) {
	c, err := p.connect()
	if err != nil {
		return p, err
	}
	c.close()
	return c.place, nil
}

// connect makes a client from the configuration. It sends no request.
func (p Place) connect() (*cluster, error) {
	files := clientcmd.NewDefaultClientConfigLoadingRules()
	files.WarnIfAllMissing = false // the error below says it
	overrides := &clientcmd.ConfigOverrides{CurrentContext: p.Context}
	overrides.Context.Namespace = p.Namespace
	given := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(files, overrides)
	config, err := given.ClientConfig()
	if clientcmd.IsEmptyConfig(err) {
		return nil, errors.New("no Kubernetes is configured: KUBECONFIG names the file that says where " +
			"one is, without it ~/.kube/config is read")
	}
	c := &cluster{place: p}
	if err == nil {
		c.place.Namespace, _, err = given.Namespace()
	}
	if err == nil && p.Context == "" {
		raw, _ := given.RawConfig() // in a pod without one there is no context
		c.place.Context = raw.CurrentContext
	}
	if err == nil {
		c.base, _, err = rest.DefaultServerUrlFor(config)
	}
	if err == nil {
		c.http, err = rest.HTTPClientFor(config)
	}
	if err != nil {
		return nil, fmt.Errorf("read where the Kubernetes is: %w", err)
	}
	c.host = c.base.Redacted()
	return c, nil
}

// close closes idle connections.
func (c *cluster) close() { c.http.CloseIdleConnections() }

// do sends a request about a resource of the namespace, such as "pods?limit=1" or "jobs/NAME". The
// answer goes into a *string as it is, into anything else as JSON, and nowhere if into is nil. An
// error is the server's own (apierrors), or says that there was no answer.
func (c *cluster) do(ctx context.Context, method, resource string, body, into any) error {
	group := "/api/v1"
	if strings.HasPrefix(resource, "jobs") {
		group = "/apis/batch/v1"
	}
	text, err := json.Marshal(body)
	if err != nil {
		return fmt.Errorf("write a request: %w", err)
	}
	where := strings.TrimSuffix(c.base.String(), "/") + group + "/namespaces/" + c.place.Namespace
	if body == nil {
		text = nil
	}
	ctx, cancel := context.WithTimeout(ctx, answerBound)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, where+"/"+resource, bytes.NewReader(text))
	if err != nil {
		return fmt.Errorf("make a request: %w", err)
	}
	req.Header.Set("Content-Type", "application/json")
	status, answer, err := c.send(req)
	if err != nil {
		if sent, ok := errors.AsType[*url.Error](err); ok { // which repeats the address
			err = sent.Err
		}
		return fmt.Errorf("the Kubernetes at %s does not answer: %w", c.host, err)
	}
	if status >= http.StatusMultipleChoices {
		return refusal(status, answer)
	}
	switch into := into.(type) {
	case nil:
	case *string:
		*into = string(answer)
	default:
		err = json.Unmarshal(answer, into)
	}
	if err != nil {
		return fmt.Errorf("read an answer of the Kubernetes at %s: %w", c.host, err)
	}
	return nil
}

// send returns when the request's context ends: the program that a configuration may name for
// credentials knows no context, and may wait for a person.
func (c *cluster) send(req *http.Request) (status int, answer []byte, err error) {
	type answered struct {
		status int
		body   []byte
		err    error
	}
	got := make(chan answered, 1)
	go func() {
		resp, err := c.http.Do(req)
		if err != nil {
			got <- answered{err: err}
			return
		}
		defer resp.Body.Close()
		body, err := io.ReadAll(resp.Body)
		got <- answered{resp.StatusCode, body, err}
	}()
	select {
	case a := <-got:
		return a.status, a.body, a.err
	case <-req.Context().Done():
		return 0, nil, context.Cause(req.Context())
	}
}

// refusal is an answer that is no success as an error.
func refusal(status int, answer []byte) error {
	var said apierrors.StatusError
	if json.Unmarshal(answer, &said.ErrStatus) != nil || said.ErrStatus.Status != meta.StatusFailure {
		return fmt.Errorf("the Kubernetes answers %d %s", status, http.StatusText(status))
	}
	if apierrors.IsForbidden(&said) || apierrors.IsUnauthorized(&said) {
		return fmt.Errorf("%w (docker/kubernetes/rbac.yaml has the rights that a run needs)", &said)
	}
	return &said
}
