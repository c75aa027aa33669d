package processes

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"stampede/harness/sut"
)

// Program is a store's program on this machine.
type Program struct {
	// Name is what it is called; empty means as its file is.
	Name string
	// Path is the program, Version what it says about itself. Of Kafka, Path
	// is the folder of its jars.
	Path, Version string
	// Java is what runs the jars.
	Java string
}

// String reads "redis-server 7.0.15 at /usr/bin/redis-server".
func (p Program) String() string {
	return fmt.Sprintf("%s %s at %s", cmp.Or(p.Name, filepath.Base(p.Path)), p.Version, p.Path)
}

// postgresFolders are where distributions keep server programs off the PATH.
var postgresFolders = [...]string{"/usr/lib/postgresql/*/bin", "/usr/pgsql-*/bin"}

// Find looks for the program of a service: on the PATH first, then where
// distributions keep it, the newest first.
func Find(ctx context.Context, service sut.Service) (Program, error) {
	switch service {
	case sut.Postgres:
		return findPostgres(ctx)
	case sut.Replica:
		return findReplica(ctx)
	case sut.Redis:
		return findRedis(ctx)
	case sut.Kafka:
		return findKafka(ctx)
	default:
		return Program{}, fmt.Errorf("local processes cannot provide %s", service)
	}
}

// findReplica is findPostgres, with what copies a primary beside it.
func findReplica(ctx context.Context) (Program, error) {
	p, err := findPostgres(ctx)
	copier := filepath.Join(filepath.Dir(p.Path), "pg_basebackup")
	if err == nil && !isProgram(copier) {
		err = fmt.Errorf("no %s, which makes a replica (some distributions have it in the package of "+
			"the clients)", copier)
	}
	return p, err
}

func findRedis(ctx context.Context) (Program, error) {
	for _, name := range []string{"redis-server", "valkey-server"} {
		if path, err := exec.LookPath(name); err == nil {
			return describe(ctx, path)
		}
	}
	return Program{}, fmt.Errorf("no redis-server or valkey-server on the PATH")
}

func findPostgres(ctx context.Context) (Program, error) {
	var folders []string
	if path, err := exec.LookPath("postgres"); err == nil {
		// A link on the PATH leads to the folder that has initdb as well.
		if target, err := filepath.EvalSymlinks(path); err == nil {
			folders = append(folders, filepath.Dir(target))
		}
	}
	for _, folder := range append(folders, installedPostgres()...) {
		if isProgram(filepath.Join(folder, "postgres")) && isProgram(filepath.Join(folder, "initdb")) {
			return recent(describe(ctx, filepath.Join(folder, "postgres")))
		}
	}
	return Program{}, fmt.Errorf("no postgres with its initdb on the PATH or in %s",
		strings.Join(postgresFolders[:], ", "))
}

// OldestPostgres is the first that has all settings of docker.PostgresConf.
const OldestPostgres = 14

// recent refuses a Postgres that is too old.
func recent(p Program, err error) (Program, error) {
	if err == nil && majorOf(p.Version) < OldestPostgres {
		err = fmt.Errorf("%s is too old: Postgres %d or later is needed", p, OldestPostgres)
	}
	return p, err
}

// installedPostgres lists the distribution's folders, the newest first.
func installedPostgres() []string {
	var folders []string
	for _, pattern := range postgresFolders {
		found, err := filepath.Glob(pattern)
		if err == nil {
			folders = append(folders, found...)
		}
	}
	slices.SortStableFunc(folders, func(a, b string) int { return majorOf(b) - majorOf(a) })
	return folders
}

// majorOf is the first number in a path or version, zero if there is none.
func majorOf(text string) int {
	major, _ := strconv.Atoi(number.FindString(text))
	return major
}

var (
	number  = regexp.MustCompile(`[0-9]+`)
	version = regexp.MustCompile(`[0-9]+(\.[0-9]+)+`)
)

func isProgram(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular() && info.Mode().Perm()&0o111 != 0
}

// describe asks a program for its version.
func describe(ctx context.Context, path string) (Program, error) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	out, err := exec.CommandContext(ctx, path, "--version").Output()
	if err != nil {
		return Program{}, fmt.Errorf("ask %s for its version: %w", path, err)
	}
	return Program{Path: path, Version: version.FindString(string(out))}, nil
}
