package sim

import "context"

// inProcess is the key of a context's process.
type inProcess struct{}

// Context is ctx for calls that the process makes: In finds it there.
func (p *Process) Context(ctx context.Context) context.Context {
	return context.WithValue(ctx, inProcess{}, p)
}

// In is the process that makes a call; nil outside of a simulation.
func In(ctx context.Context) *Process {
	p, _ := ctx.Value(inProcess{}).(*Process)
	return p
}
