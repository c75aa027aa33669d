package sim

// App is the application's CPU: threads before cores. It is no store: it does not fail, but
// the processes of a Group can be killed.
type App struct {
	s       *Sim
	threads *Threads
	demands demands
}

func newApp(s *Sim, threads int, cpu *CPU, costs map[string]Cost) *App {
	if threads == 0 {
		threads = cpu.servers
	}
	return &App{s, NewThreads(s, "app.threads", threads, cpu), s.demands("app", costs)}
}

// Burn is a step that needs CPU of the application, by the name of its cost.
func (a *App) Burn(name string) Step { return a.BurnTimes(name, 1) }

// BurnTimes is Burn with a multiple of the mean, such as the number of events.
func (a *App) BurnTimes(name string, n float64) Step {
	return a.threads.Burn(a.demands.draw(name, n))
}

// Client is the application's side of a store: its own CPU before and after each round trip,
// and the link between them.
type Client struct {
	app   *App
	store string
	// Link is the network to the store, for faults.
	Link *Link
	// Bytes is the size of a message, each way.
	Bytes         int64
	send, receive instant
}

// messageBytes is the size of a message unless the model says otherwise.
const messageBytes = 256

func (a *App) client(n Network, store *component) *Client {
	link := NewLink(a.s, store.name+".link", n.Latency.D(), n.BytesPerS)
	c := &Client{app: a, store: store.name, Link: link, Bytes: messageBytes}
	c.send = func(ch *chain, bytes int64) { ch.push(c.work(), link.There(bytes)) }
	c.receive = func(ch *chain, bytes int64) { ch.push(link.Back(bytes), c.work()) }
	return c
}

// Send is a step: the application works and the request travels.
func (c *Client) Send() Step { return c.SendBytes(c.Bytes) }

// SendBytes is Send with a size.
func (c *Client) SendBytes(bytes int64) Step { return Step{of: c.send, n: bytes} }

// Receive is a step: the answer travels and the application works.
func (c *Client) Receive() Step { return c.ReceiveBytes(c.Bytes) }

// ReceiveBytes is Receive with a size.
func (c *Client) ReceiveBytes(bytes int64) Step { return Step{of: c.receive, n: bytes} }

// work is the half of a round trip's CPU.
func (c *Client) work() Step {
	return c.app.threads.Burn(c.app.demands.draw(c.store, 0.5))
}
