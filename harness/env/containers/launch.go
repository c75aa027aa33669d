package containers

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/moby/moby/api/pkg/stdcopy"
	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/api/types/mount"
	"github.com/moby/moby/client"

	"stampede/harness/env"
)

// StampedeImage is the image of stampede itself, which docker/images.sh makes.
const StampedeImage = "stampede/stampede:local"

// inImage is where the image has the program.
const inImage = "/usr/local/bin/stampede"

// killedCode is the exit code of what SIGKILL has ended.
const killedCode = 137

// Launcher runs a program of this machine in containers of stampede's image. It
// is mounted in the place of the image's own, so that an image of another day
// runs the same code as we do.
type Launcher struct {
	// Program is the path of the program, and Environ its environment, as
	// KEY=value.
	Program string
	Environ []string

	mu     sync.Mutex
	engine *engine // nil before the first use
	id     string
}

var _ env.Launcher = (*Launcher)(nil)

// Available implements env.Launcher: an engine of this machine has the image.
func (l *Launcher) Available(ctx context.Context) error {
	e, err := l.connected(ctx)
	if err != nil {
		return fmt.Errorf("containers: %w", err)
	}
	if !e.local() {
		return fmt.Errorf("containers: roles need an engine of this machine, not %s", shown(e.host))
	}
	present, err := e.present(ctx, StampedeImage)
	if err == nil && !present {
		err = fmt.Errorf("there is no image %s: `make build && docker/images.sh stampede` makes it",
			StampedeImage)
	}
	if err != nil {
		return fmt.Errorf("containers: %w", err)
	}
	return nil
}

// connected is the engine, found at the first use.
func (l *Launcher) connected(ctx context.Context) (*engine, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.engine == nil {
		e, err := connect(ctx)
		if err != nil {
			return nil, err
		}
		l.engine, l.id = e, uuid.NewString()
	}
	return l.engine, nil
}

// Launch implements env.Launcher. The container shares the machine's network,
// as a store's clients do, and its numbers of processes, so that one of its own
// can end itself: the first process of a container cannot.
func (l *Launcher) Launch(ctx context.Context, p env.Program) (env.Process, error) {
	e, err := l.connected(ctx)
	if err != nil {
		return nil, fmt.Errorf("launch %s: %w", p.Name, err)
	}
	labels, err := labelsOf(p.RunID, l.id)
	if err != nil {
		return nil, fmt.Errorf("launch %s: %w", p.Name, err)
	}
	program, err := filepath.Abs(l.Program)
	if err != nil {
		return nil, fmt.Errorf("launch %s: %w", p.Name, err)
	}
	mounts := []mount.Mount{{Type: mount.TypeBind, Source: program, Target: inImage, ReadOnly: true}}
	user := ""
	if p.Folder != "" {
		// What it writes there is ours to remove.
		user = fmt.Sprintf("%d:%d", os.Getuid(), os.Getgid())
		mounts = append(mounts, mount.Mount{Type: mount.TypeBind, Source: p.Folder, Target: p.Folder})
	}
	made, err := e.ContainerCreate(ctx, client.ContainerCreateOptions{
		Config: &container.Config{Image: StampedeImage, Entrypoint: []string{inImage}, Cmd: p.Args,
			User: user,
			Env:  l.Environ, Labels: labels, OpenStdin: true, StdinOnce: true,
			AttachStdin: true, AttachStdout: true, AttachStderr: true},
		HostConfig: &container.HostConfig{NetworkMode: "host", PidMode: "host", Mounts: mounts},
	})
	if err != nil {
		return nil, fmt.Errorf("launch %s: %w", p.Name, err)
	}
	boxed := &boxed{engine: e, id: made.ID, done: make(chan struct{})}
	if err := boxed.start(ctx, p.Log); err != nil {
		err = fmt.Errorf("launch %s: %w", p.Name, err)
		return nil, errors.Join(err, e.removeContainer(context.WithoutCancel(ctx), made.ID))
	}
	return boxed, nil
}

// Close implements env.Launcher. It removes by label what is left.
func (l *Launcher) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.engine == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), commandBound)
	defer cancel()
	_, err := l.engine.removeLabelled(ctx, env.ClusterLabel+"="+l.id,
		func(map[string]string) bool { return true })
	err = errors.Join(err, l.engine.Close())
	l.engine = nil
	return err
}

// boxed is a process in a container of its own, which goes with it.
type boxed struct {
	engine *engine
	id     string
	pid    int
	pipe   client.ContainerAttachResult
	output *io.PipeReader
	done   chan struct{}
	how    env.End // read it only after done
}

// start attaches to the container, starts it and follows it to its end.
func (b *boxed) start(ctx context.Context, log string) (err error) {
	b.pipe, err = b.engine.ContainerAttach(ctx, b.id, client.ContainerAttachOptions{
		Stream: true, Stdin: true, Stdout: true, Stderr: true})
	if err != nil {
		return fmt.Errorf("attach to its container: %w", err)
	}
	file, err := os.OpenFile(log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		b.pipe.Close()
		return err
	}
	// The process outlives ctx.
	life := context.WithoutCancel(ctx)
	wait := b.engine.ContainerWait(life, b.id, client.ContainerWaitOptions{
		Condition: container.WaitConditionNextExit})
	if err := b.run(ctx); err != nil {
		b.pipe.Close()
		return errors.Join(err, file.Close())
	}
	var printed *io.PipeWriter
	b.output, printed = io.Pipe()
	go b.follow(wait, printed, file)
	return nil
}

// run starts the container and finds its process.
func (b *boxed) run(ctx context.Context) error {
	_, err := b.engine.ContainerStart(ctx, b.id, client.ContainerStartOptions{})
	if err != nil {
		return fmt.Errorf("start its container: %w", err)
	}
	state, err := b.engine.ContainerInspect(ctx, b.id, client.ContainerInspectOptions{})
	if err != nil {
		return fmt.Errorf("inspect its container: %w", err)
	}
	if state.Container.State != nil {
		b.pid = state.Container.State.Pid
	}
	return nil
}

// follow copies what the process prints until it has ended, and removes the
// container.
func (b *boxed) follow(wait client.ContainerWaitResult, printed *io.PipeWriter, log *os.File) {
	defer close(b.done)
	_, err := stdcopy.StdCopy(printed, log, b.pipe.Reader)
	_ = printed.CloseWithError(err) // which always succeeds; nil is the end
	select {
	case end := <-wait.Result:
		b.how = env.End{Code: int(end.StatusCode), Killed: end.StatusCode == killedCode,
			Text: fmt.Sprintf("exit status %d", end.StatusCode)}
		if b.how.Killed {
			b.how.Code, b.how.Text = -1, "signal: killed"
		}
	case err := <-wait.Error:
		b.how = env.End{Code: -1, Text: "it is not known how: " + err.Error()}
	}
	b.pipe.Close()
	// What cannot be removed now, Close removes by its label.
	_ = b.engine.removeContainer(context.Background(), b.id)
	_ = log.Close() // nothing of ours is buffered
}

func (b *boxed) PID() int { return b.pid }

func (b *boxed) Input() io.WriteCloser { return halfClosed{b.pipe} }

// halfClosed is the writing half of an attached connection.
type halfClosed struct{ client.ContainerAttachResult }

func (h halfClosed) Write(p []byte) (int, error) { return h.Conn.Write(p) }

// Close ends the input. A connection that is closed altogether has ended it.
func (h halfClosed) Close() error {
	_ = h.CloseWrite()
	return nil
}

func (b *boxed) Output() io.ReadCloser { return b.output }

func (b *boxed) Done() <-chan struct{} { return b.done }

func (b *boxed) How() env.End {
	<-b.done
	return b.how
}

// signal sends a signal; one that has ended is no error.
func (b *boxed) signal(ctx context.Context, name string) error {
	ctx, cancel := context.WithTimeout(ctx, commandBound)
	defer cancel()
	_, err := b.engine.ContainerKill(ctx, b.id, client.ContainerKillOptions{Signal: name})
	if err == nil || env.Ended(b.done) {
		return nil
	}
	// It may be ending at this moment, which the engine calls a conflict.
	select {
	case <-b.done:
		return nil
	case <-time.After(time.Second):
		return fmt.Errorf("send %s to container %.12s: %w", name, b.id, err)
	}
}

// Kill implements env.Process. A frozen one is ended all the same.
func (b *boxed) Kill(ctx context.Context) error {
	ctx = context.WithoutCancel(ctx)
	if err := b.Resume(ctx); err != nil {
		return err
	}
	if err := b.signal(ctx, "KILL"); err != nil {
		return err
	}
	select {
	case <-b.done:
		return nil
	case <-time.After(commandBound):
		return fmt.Errorf("container %.12s has not ended %v after SIGKILL", b.id, commandBound)
	}
}

func (b *boxed) Terminate(ctx context.Context) error { return b.signal(ctx, "TERM") }

// Pause implements env.Process by the engine's freezer.
func (b *boxed) Pause(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, commandBound)
	defer cancel()
	if err := freeze(ctx, b.engine, b.id); err != nil {
		return fmt.Errorf("pause container %.12s: %w", b.id, err)
	}
	return nil
}

// Resume implements env.Process. Resuming what runs changes nothing.
func (b *boxed) Resume(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, commandBound)
	defer cancel()
	state, err := b.engine.ContainerInspect(ctx, b.id, client.ContainerInspectOptions{})
	if env.Ended(b.done) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("inspect container %.12s: %w", b.id, err)
	}
	if state.Container.State == nil || !state.Container.State.Paused {
		return nil
	}
	_, err = b.engine.ContainerUnpause(ctx, b.id, client.ContainerUnpauseOptions{})
	if err != nil {
		return fmt.Errorf("resume container %.12s: %w", b.id, err)
	}
	return nil
}
