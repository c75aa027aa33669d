package processes

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"stampede/docker"
	"stampede/harness/env"
	"stampede/harness/env/admin"
)

// oldestJava is the first Java that the broker runs on.
const oldestJava = 17

// Bounds of asking Java for its version and of resolving the broker's jars,
// which are some 45 MB.
const (
	javaBound    = 20 * time.Second
	resolveBound = 10 * time.Minute
)

// cacheFolder is where what was fetched is kept: a folder that the user named,
// the system's for root, whose home other users cannot enter, or the user's.
func cacheFolder() (string, error) {
	if named := os.Getenv("STAMPEDE_CACHE_DIR"); named != "" {
		return named, nil
	}
	if os.Geteuid() == 0 {
		return "/var/cache/stampede", nil
	}
	dir, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("find a folder for the jars of kafka (set STAMPEDE_CACHE_DIR): %w", err)
	}
	return filepath.Join(dir, "stampede"), nil
}

// jarsFolder is where the jars that the pom pins belong, there or not: in the
// folder that the user named, or in the cache.
func jarsFolder() (string, error) {
	if named := os.Getenv("STAMPEDE_KAFKA_JARS"); named != "" {
		return named, nil
	}
	cache, err := cacheFolder()
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(docker.KafkaPom)
	return filepath.Join(cache, "kafka-"+hex.EncodeToString(sum[:6])), nil
}

// brokerJar names the broker's own jar, which has the version in its name.
var brokerJar = regexp.MustCompile(`^kafka_[0-9.]+-([0-9]+\.[0-9]+\.[0-9]+)\.jar$`)

// jarVersion is the version of the broker whose jars are in a folder.
func jarVersion(dir string) (string, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return "", err
	}
	for _, entry := range entries {
		if found := brokerJar.FindStringSubmatch(entry.Name()); found != nil {
			return found[1], nil
		}
	}
	return "", fmt.Errorf("%s has no broker in it", dir)
}

// findKafka looks for Java and for the jars.
func findKafka(ctx context.Context) (Program, error) {
	java, err := FindJava(ctx)
	if err != nil {
		return Program{}, err
	}
	dir, err := jarsFolder()
	if err != nil {
		return Program{}, err
	}
	version, err := jarVersion(dir)
	if err != nil {
		return Program{}, fmt.Errorf("the jars of kafka are not there (%w)", err)
	}
	return Program{Name: "kafka", Path: dir, Version: version, Java: java.Path}, nil
}

// errNoJava says that there is no Java that the broker runs on.
var errNoJava = fmt.Errorf("no java %d or later", oldestJava)

// javaFolders are where distributions keep Java off the PATH.
const javaFolders = "/usr/lib/jvm/*/bin/java"

// javas lists where a Java may be. What the user named is the only one.
func javas() []string {
	if home := os.Getenv("JAVA_HOME"); home != "" {
		return []string{filepath.Join(home, "bin", "java")}
	}
	var paths []string
	if path, err := exec.LookPath("java"); err == nil {
		paths = append(paths, path)
	}
	installed, err := filepath.Glob(javaFolders)
	if err == nil {
		paths = append(paths, installed...)
	}
	return paths
}

// FindJava looks for a Java that the broker runs on: where JAVA_HOME says, or
// else on the PATH and where distributions keep it.
func FindJava(ctx context.Context) (Program, error) {
	var failures []string
	for _, path := range javas() {
		program, err := describeJava(ctx, path)
		if err == nil {
			return program, nil
		}
		if !errors.Is(err, os.ErrNotExist) {
			failures = append(failures, err.Error())
		}
	}
	if len(failures) == 0 {
		return Program{}, errNoJava
	}
	return Program{}, fmt.Errorf("%w: %s", errNoJava, strings.Join(failures, "; "))
}

// javaVersion is the version in what java -version says. A Java that takes
// options from its environment says so first.
func javaVersion(said string) string {
	for line := range strings.Lines(said) {
		if _, after, ok := strings.Cut(line, `version "`); ok {
			return cmp.Or(version.FindString(after), number.FindString(after))
		}
	}
	return ""
}

// describeJava asks a Java for its version, which it writes on its standard
// error.
func describeJava(ctx context.Context, path string) (Program, error) {
	ctx, cancel := context.WithTimeout(ctx, javaBound)
	defer cancel()
	out, err := exec.CommandContext(ctx, path, "-version").CombinedOutput()
	if err != nil {
		return Program{}, fmt.Errorf("ask %s for its version: %w", path, err)
	}
	p := Program{Path: path, Version: javaVersion(string(out))}
	if majorOf(p.Version) < oldestJava {
		return Program{}, fmt.Errorf("%s is too old: java %d or later is needed", p, oldestJava)
	}
	return p, nil
}

// ResolveKafka has Maven fetch the jars that the pom pins into the cache, if
// they are not there, and prepares them for starting fast. It takes a minute
// and needs mvn on the PATH; what Maven says is told if it fails.
func ResolveKafka(ctx context.Context, out io.Writer) error {
	if err := fetchJars(ctx, out); err != nil {
		return err
	}
	program, err := findKafka(ctx)
	if err != nil {
		return err
	}
	if err := archiveClasses(ctx, program); err != nil {
		// It starts all the same.
		fmt.Fprintf(out, "kafka will start more slowly than it could: %v\n", err)
	}
	return nil
}

func fetchJars(ctx context.Context, out io.Writer) (err error) {
	ctx, cancel := context.WithTimeout(ctx, resolveBound)
	defer cancel()
	dir, err := jarsFolder()
	if err != nil {
		return err
	}
	if _, err := jarVersion(dir); err == nil {
		return nil
	}
	mvn, err := exec.LookPath("mvn")
	if err != nil {
		return errors.New("resolve the jars of kafka: no mvn on the PATH")
	}
	if err := os.MkdirAll(filepath.Dir(dir), 0o755); err != nil {
		return fmt.Errorf("make a folder for the jars of kafka: %w", err)
	}
	work, err := os.MkdirTemp(filepath.Dir(dir), "resolving-*")
	if err != nil {
		return fmt.Errorf("make a folder for the jars of kafka: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(work)) }()
	pom, jars := filepath.Join(work, "pom.xml"), filepath.Join(work, "jars")
	if err := os.WriteFile(pom, docker.KafkaPom, 0o600); err != nil {
		return fmt.Errorf("write the pom of kafka: %w", err)
	}
	argv := []string{"-B", "-q", "-f", pom, "-Djars=" + jars, "package"}
	fmt.Fprintf(out, "+ mvn %s\n", strings.Join(argv, " "))
	if said, err := exec.CommandContext(ctx, mvn, argv...).CombinedOutput(); err != nil {
		return fmt.Errorf("resolve the jars of kafka: %w\n%s", err, said)
	}
	return keepJars(jars, dir)
}

// keepJars moves the jars to their place, readable by the user that the broker
// runs as. Somebody else may have been first.
func keepJars(jars, dir string) error {
	if _, err := jarVersion(jars); err != nil {
		return fmt.Errorf("resolve the jars of kafka: %w", err)
	}
	if err := os.Chmod(jars, 0o755); err != nil {
		return fmt.Errorf("open the jars of kafka to their users: %w", err)
	}
	err := os.Rename(jars, dir)
	if _, there := jarVersion(dir); err != nil && there != nil {
		return fmt.Errorf("keep the jars of kafka: %w", err)
	}
	return nil
}

// brokerFlags are Java's flags for a broker in a folder.
func brokerFlags(dir string) []string {
	return append(strings.Fields(admin.KafkaHeapFlags), "-XX:-UsePerfData",
		"-Djava.io.tmpdir="+dir, "-Dlog4j2.configurationFile=file:"+filepath.Join(dir, loggingFile))
}

// toolFlags suit a tool that runs for a second.
func toolFlags(dir string) []string {
	return []string{"-Xmx128m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-XX:-UsePerfData",
		"-Djava.io.tmpdir=" + dir, "-Dlog4j2.configurationFile=file:" + filepath.Join(dir, loggingFile)}
}

// kafkaInfo adds what only the starter of a broker knows.
func kafkaInfo(ctx context.Context, program Program, info *env.Info) error {
	java, err := describeJava(ctx, program.Java)
	if err != nil {
		return err
	}
	info.Version = program.Version
	info.Settings["java"], info.Settings["java_heap"] = java.Version, admin.KafkaHeap
	return nil
}
