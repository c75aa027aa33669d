package processes

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"stampede/harness/durable"
	"stampede/harness/env"
	"stampede/harness/sut"
)

// archiveOf is where the classes of the jars in a folder are kept as Java has
// them in memory. Reading them from there halves the work of a start.
func archiveOf(jars string) string { return jars + ".jsa" }

// archiveClasses starts a broker once and has Java write its classes down.
func archiveClasses(ctx context.Context, program Program) (err error) {
	ctx, cancel := context.WithTimeout(ctx, resolveBound)
	defer cancel()
	home, err := newHome("archive")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, home.close()) }()
	recipes, err := kafkaRecipes(program, env.Spec{Kafka: sut.DefaultKafka()}, nil)
	if err != nil {
		return err
	}
	const name = "classes.jsa"
	b := recipes[0].kafka
	b.flags = append(b.flags, "-XX:ArchiveClassesAtExit="+name)
	s, err := newServer(ctx, recipes[0], home.dir, filepath.Join(home.dir, "kafka.log"))
	if err != nil {
		return err
	}
	s.mu.Lock()
	err = s.stop(ctx)
	s.mu.Unlock()
	if err != nil {
		return errors.Join(err, s.close(ctx))
	}
	classes, err := os.ReadFile(filepath.Join(s.dir, name))
	if err != nil {
		return fmt.Errorf("java wrote no classes down: %w", err)
	}
	return writeWhole(archiveOf(program.Path), classes)
}

// writeWhole writes a file that everybody may read, all of it or nothing.
func writeWhole(path string, data []byte) error {
	return durable.WriteFile(path, func(w io.Writer) error {
		_, err := w.Write(data)
		return err
	})
}

// archiveFlags let Java read the classes, if they were written down. What does
// not fit, because Java is another one by now, is passed over in silence.
func archiveFlags(program Program) []string {
	if _, err := os.Stat(archiveOf(program.Path)); err != nil {
		return nil
	}
	return []string{"-XX:SharedArchiveFile=" + archiveOf(program.Path), "-Xshare:auto",
		"-Xlog:cds*=off"}
}
