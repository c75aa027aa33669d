package containers

import (
	"archive/tar"
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"path"
	"strconv"
	"strings"
	"time"

	"github.com/moby/moby/api/pkg/stdcopy"
	"github.com/moby/moby/client"

	"stampede/harness/env"
	"stampede/harness/env/admin"
)

// journalScript prints the sizes and names of the files of the journal in
// folder $1, then an empty line, $2 times with $3 seconds between: the volume
// may be on a machine, or in a folder, that this process cannot look into.
const journalScript = `n=0; while [ "$n" -lt "$2" ]; do
stat -c '%s %n' "$1"/*.incr.aof 2>/dev/null; echo; n=$((n+1)); sleep "$3"; done`

// journalWatch is how long a journal is watched at most. A command in a
// container outlives the connection to it.
const journalWatch = time.Minute

// WatchJournal implements env.Journaled, by a shell in the container.
func (s *store) WatchJournal(ctx context.Context, seen func(map[string]int64)) error {
	folder, err := admin.JournalOf(ctx, s.Store)
	if err != nil {
		return err
	}
	s.mu.Lock()
	s.journal = folder
	s.mu.Unlock()
	out, err := s.stream(ctx, "sh", "-c", journalScript, "journal", folder,
		strconv.Itoa(int(journalWatch/env.JournalEvery)),
		strconv.FormatFloat(env.JournalEvery.Seconds(), 'f', -1, 64))
	if err != nil {
		return err
	}
	first := make(chan error, 1)
	go func() {
		defer out.Close()
		told := func(sizes map[string]int64) {
			seen(sizes)
			select {
			case first <- nil:
			default:
			}
		}
		err := readSizes(out, told)
		select {
		case first <- errors.Join(errors.New("its container reports no sizes of the append-only file"),
			err):
		default:
		}
	}()
	select {
	case err := <-first:
		return err
	case <-time.After(commandBound):
		return fmt.Errorf("the container of %s reported no sizes of the append-only file within %v",
			s.service, commandBound)
	}
}

// readSizes calls seen for each answer of journalScript.
func readSizes(r io.Reader, seen func(map[string]int64)) error {
	lines := bufio.NewScanner(r)
	sizes := map[string]int64{}
	for lines.Scan() {
		size, name, isFile := strings.Cut(lines.Text(), " ")
		if !isFile {
			seen(sizes)
			sizes = map[string]int64{}
			continue
		}
		bytes, err := strconv.ParseInt(size, 10, 64)
		if err != nil {
			return fmt.Errorf("read the size of an append-only file from %q", lines.Text())
		}
		sizes[path.Base(name)] = bytes
	}
	return lines.Err()
}

// stream starts a command in the container and returns what it prints, until
// ctx is over.
func (s *store) stream(ctx context.Context, cmd ...string) (io.ReadCloser, error) {
	made, err := s.engine.ExecCreate(ctx, s.container(), client.ExecCreateOptions{
		AttachStdout: true, AttachStderr: true, Cmd: cmd})
	if err != nil {
		return nil, fmt.Errorf("run %s in the container of %s: %w", cmd[0], s.service, err)
	}
	attached, err := s.engine.ExecAttach(ctx, made.ID, client.ExecAttachOptions{})
	if err != nil {
		return nil, fmt.Errorf("run %s in the container of %s: %w", cmd[0], s.service, err)
	}
	reader, writer := io.Pipe()
	stop := context.AfterFunc(ctx, attached.Close)
	go func() {
		defer attached.Close()
		defer stop()
		_, err := stdcopy.StdCopy(writer, writer, attached.Reader)
		writer.CloseWithError(err)
	}()
	return reader, nil
}

// CutJournal implements env.Journaled by taking the files out of the stopped
// container and putting them back shorter.
func (s *store) CutJournal(ctx context.Context, sizes map[string]int64) (
	map[string][]byte, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, s.bound())
	defer cancel()
	state, err := s.inspect(ctx)
	if err != nil {
		return nil, err
	}
	if state.State.Running {
		return nil, fmt.Errorf("cut the append-only file: %w", env.ErrRunning)
	}
	files, err := s.engine.CopyFromContainer(ctx, s.container(),
		client.CopyFromContainerOptions{SourcePath: s.journal})
	if err != nil {
		return nil, fmt.Errorf("read the append-only file: %w", err)
	}
	defer files.Content.Close()
	shorter, lost, err := cutArchive(files.Content, sizes)
	if err != nil {
		return nil, fmt.Errorf("cut the append-only file: %w", err)
	}
	_, err = s.engine.CopyToContainer(ctx, s.container(), client.CopyToContainerOptions{
		DestinationPath: path.Dir(s.journal), Content: shorter})
	if err != nil {
		return nil, fmt.Errorf("write the append-only file: %w", err)
	}
	return lost, nil
}

// cutArchive returns an archive of those files of another that are to be
// shorter, with their owners, and what was cut off.
func cutArchive(r io.Reader, sizes map[string]int64) (
	shorter io.Reader, lost map[string][]byte, err error) {
	var out bytes.Buffer
	from, to := tar.NewReader(r), tar.NewWriter(&out)
	lost = map[string][]byte{}
	for {
		header, err := from.Next()
		if errors.Is(err, io.EOF) {
			return &out, lost, to.Close()
		}
		if err != nil {
			return nil, nil, err
		}
		name := path.Base(header.Name)
		size := sizes[name]
		if !admin.IsJournal(name) || header.Size <= size {
			continue
		}
		content, err := io.ReadAll(from)
		if err != nil {
			return nil, nil, err
		}
		lost[name] = content[size:]
		header.Size = size
		if err := to.WriteHeader(header); err != nil {
			return nil, nil, err
		}
		if _, err := to.Write(content[:size]); err != nil {
			return nil, nil, err
		}
	}
}
