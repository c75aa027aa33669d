package lint_test

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// TestImports holds every file against the import rules.
func TestImports(t *testing.T) {
	for _, s := range repository(t) {
		report(t, s, imports(s))
	}
}

// imports finds the imports that the rules of the design forbid.
func imports(s *source) []finding {
	var found []finding
	for _, spec := range s.ast.Imports {
		target, err := strconv.Unquote(spec.Path.Value)
		if err != nil {
			continue // the parser has accepted it
		}
		if fix := forbidden(s.folder(), target, s.test()); fix != "" {
			found = append(found, finding{s.path, s.line(spec.Pos()), "imports",
				fmt.Sprintf("%s must not import %s: %s", s.folder(), target, fix)})
		}
	}
	return found
}

// forbidden says why a package must not import another and what to do
// instead, or "". Tests may import more widely: they are held to the rules
// about systems and about the container client alone.
func forbidden(folder, target string, test bool) string {
	ours, isOurs := strings.CutPrefix(target, module+"/")
	if isOurs && within(ours, "systems") && otherSystem(folder, ours) {
		return "a system stands alone; move what they share to harness"
	}
	if containers(target) && !within(folder, "harness/env/containers") {
		return "only harness/env/containers talks to the container engine; use env.Provider"
	}
	switch {
	case test:
		return ""
	case isOurs:
		return forbiddenOurs(folder, ours)
	case standard(target):
		return forbiddenStandard(folder, target)
	}
	return forbiddenModule(folder, target)
}

// within says whether a package path is a folder or below it.
func within(pkg, folder string) bool { return pkg == folder || strings.HasPrefix(pkg, folder+"/") }

func withinAny(pkg string, folders ...string) bool {
	return slices.ContainsFunc(folders, func(folder string) bool { return within(pkg, folder) })
}

// system is the name of the system that a package belongs to, or "".
func system(folder string) string {
	parts := strings.Split(folder, "/")
	if len(parts) < 2 || parts[0] != "systems" {
		return ""
	}
	return parts[1]
}

func otherSystem(folder, target string) bool {
	return system(folder) != "" && system(target) != "" && system(folder) != system(target) &&
		system(target) != "internal"
}

// testsOnly are the packages that only tests may import.
func testsOnly() []string {
	return []string{
		"harness/suttest", "harness/api/apitest", "harness/env/envtest", "harness/interleave",
		"harness/schema/schematest", "harness/childtest", "reports/browsertest",
	}
}

// forbiddenOurs judges an import of one of our packages.
func forbiddenOurs(folder, target string) string {
	if withinAny(target, testsOnly()...) && !withinAny(folder, testsOnly()...) {
		return "it is for tests; import it in a _test file"
	}
	if within(target, "cmd") {
		return "nothing imports a command; move what is wanted into a package"
	}
	switch {
	case within(folder, "cmd"):
		return ""
	case system(folder) != "":
		if system(folder) == system(target) || within(target, "systems/internal") ||
			withinAny(target, forSystems()...) {
			return ""
		}
		return "a system uses " + strings.Join(forSystems(), ", ") + " and drivers"
	case folder == "systems":
		if system(target) != "" || target == "harness/sut" {
			return ""
		}
		return "the list of systems imports the systems and harness/sut"
	case within(folder, "reports"):
		return forbiddenInReports(folder, target)
	case within(folder, "harness"):
		return forbiddenInHarness(folder, target)
	case within(folder, "scenarios"), within(folder, "docker"):
		return "it only embeds files; the caller decodes them"
	}
	return "there is no rule for this folder: add one to harness/lint/imports_test.go"
}

func forSystems() []string {
	return []string{
		"harness/sut", "harness/check", "harness/history", "harness/keys", "harness/topics",
		"harness/api", "harness/bounds", "harness/stores", "harness/design", "harness/edge",
		"harness/durable", "harness/sim",
	}
}

func forReports() []string {
	return []string{
		"harness/rundir", "harness/scenario", "harness/check", "harness/history", "harness/measure",
		"harness/stats", "harness/knee", "harness/events", "harness/schema",
		"harness/plain",
	}
}

// forbiddenInReports lets a layer of reports import only those below it.
func forbiddenInReports(folder, target string) string {
	layers := []string{"reports/words", "reports/chart", "reports/answer", "reports/export",
		"reports/page", "reports/compare"}
	at := slices.Index(layers, folder)
	switch {
	case withinAny(target, forReports()...):
		return ""
	case !within(target, "reports"):
		return "a report is made of " + strings.Join(forReports(), ", ")
	case at >= 0 && !slices.Contains(layers[:at], target):
		return "it imports only the layers of reports below it"
	}
	return ""
}

// layers lists the packages of harness that may import only some others of
// harness: the contracts, from the bottom up, and the pure packages.
func layers(pkg string) (allowed []string, listed bool) {
	switch pkg {
	case "harness/history", "harness/keys", "harness/bounds", "harness/plain", "harness/sim":
		return nil, true
	case "harness/schema":
		return []string{"harness/bounds"}, true
	case "harness/arrival":
		return []string{"harness/plain"}, true
	case "harness/check":
		return []string{"harness/history", "harness/bounds"}, true
	case "harness/sut":
		return []string{"harness/check", "harness/history", "harness/sim"}, true
	case "harness/judge":
		return []string{"harness/check", "harness/history", "harness/measure", "harness/rundir",
			"harness/scenario", "harness/stats", "harness/sut"}, true
	case "harness/topics", "harness/stores":
		return []string{"harness/sut"}, true
	case "harness/api":
		return []string{"harness/sut", "harness/history", "harness/stores", "harness/schema",
			"harness/bounds", "harness/plain"}, true
	case "harness/design":
		return []string{"harness/sut", "harness/history", "harness/check", "harness/stores",
			"harness/topics", "harness/api", "harness/bounds", "harness/sim", "harness/keys"}, true
	}
	return nil, false
}

func forbiddenInHarness(folder, target string) string {
	switch {
	case withinAny(target, "systems", "scenarios", "reports"):
		return "harness knows no system, scenario or report; take the value as a parameter"
	case within(target, "harness/run") && !within(folder, "harness/run"):
		return "run stands on all others; only commands import it"
	}
	allowed, listed := layers(folder)
	if listed && within(target, "harness") && !slices.Contains(allowed, target) {
		if len(allowed) == 0 {
			return "it imports nothing of ours, so that everything can import it"
		}
		return "it imports only " + strings.Join(allowed, " and ")
	}
	return ""
}

// standard says whether a package belongs to the standard library.
func standard(target string) bool {
	first, _, _ := strings.Cut(target, "/")
	return !strings.Contains(first, ".")
}

func forbiddenStandard(folder, target string) string {
	switch {
	case target == "math/rand":
		return "use math/rand/v2 with a seeded PCG that is passed in"
	case within(target, "testing") && !withinAny(folder, testsOnly()...):
		return "testing belongs to tests"
	case target == "C":
		return "the binary is static; find a package in Go"
	}
	return ""
}

// containers says whether a package is part of a container client.
func containers(target string) bool {
	return withinAny(target, "github.com/testcontainers/testcontainers-go",
		"github.com/docker", "github.com/moby")
}

// place says where the modules with one place belong.
type place struct {
	modules, folders []string
	fix              string
}

func places() []place {
	return []place{
		{
			[]string{
				"github.com/jackc/pgx/v5", "github.com/redis/go-redis/v9", "github.com/redis/rueidis",
				"github.com/go-redsync/redsync/v4", "github.com/twmb/franz-go",
				"github.com/jackc/pglogrepl",
			},
			[]string{
				"systems", "harness/env", "harness/topics", "harness/stores", "harness/design",
				"harness/interleave", "harness/suttest", "harness/telemetry", "harness/calibrate",
			},
			"drivers belong to systems/*, harness/env, harness/topics, harness/stores, " +
				"harness/design, harness/interleave, harness/suttest, harness/telemetry and " +
				"harness/calibrate",
		},
		{
			[]string{"github.com/riverqueue/river", "github.com/netresearch/go-cron"},
			[]string{"systems"}, "job queues, and what they understand, belong to systems/*",
		},
		{
			[]string{"github.com/axiomhq/hyperloglog", "github.com/bits-and-blooms/bloom/v3"},
			[]string{"systems"}, "sketches belong to systems/*",
		},
		{
			[]string{"github.com/blevesearch/vellum"},
			[]string{"systems/internal/prefix", "systems/textsearch/index"},
			"transducers and Levenshtein automata belong to systems/internal/prefix and textsearch",
		},
		{
			[]string{
				"github.com/blevesearch/bleve/v2", "github.com/blevesearch/bleve_index_api",
				"github.com/clipperhouse/uax29/v2",
				"github.com/kljensen/snowball",
			},
			[]string{"systems/textsearch"}, "search engines and what they make of words are textsearch's",
		},
		{
			[]string{"github.com/parquet-go/parquet-go"},
			[]string{"systems/adclicks", "harness/export"},
			"Parquet files are exports of runs, or the archive of adclicks",
		},
		{
			[]string{"github.com/marcboeker/go-duckdb/v2"}, []string{"systems/adclicks"},
			"DuckDB reads the archive of adclicks, behind the build tag duckdb",
		},
		{
			[]string{"github.com/testcontainers/testcontainers-go", "github.com/docker", "github.com/moby"},
			[]string{"harness/env/containers"}, "use env.Provider",
		},
		{
			[]string{"k8s.io", "sigs.k8s.io"}, []string{"harness/env/kubernetes", "docker/kubernetes"},
			"the client of a Kubernetes belongs to harness/env/kubernetes; use env.Engine",
		},
		{
			[]string{"gonum.org/v1"}, []string{"reports"},
			"charts and their fonts belong to reports",
		},
		{
			[]string{"github.com/spf13"}, []string{"cmd"},
			"flags belong to cmd; take a value as a parameter",
		},
		{
			[]string{"github.com/goccy/go-yaml"}, []string{"harness/scenario", "harness/api"},
			"YAML is decoded by harness/scenario, which knows lines and columns; harness/api writes it",
		},
		{
			[]string{"github.com/Shopify/toxiproxy/v2"}, []string{"harness/fault"},
			"the proxy belongs to harness/fault",
		},
		{
			[]string{
				"github.com/alicebob/miniredis/v2", "github.com/chromedp",
				"github.com/rogpeppe/go-internal", "github.com/santhosh-tekuri/jsonschema/v6",
				"github.com/stretchr/testify", "github.com/tylertreat/BoomFilters",
				"go.uber.org/goleak", "pgregory.net/rapid",
			},
			testsOnly(), "it is for tests; import it in a _test file",
		},
	}
}

func forbiddenModule(folder, target string) string {
	if layer, listed := layers(folder); listed && layer == nil {
		return "this package stands on the standard library alone"
	}
	for _, p := range places() {
		if withinAny(target, p.modules...) {
			if withinAny(folder, p.folders...) {
				return ""
			}
			return p.fix
		}
	}
	if system(folder) != "" && !withinAny(target, "github.com/valyala/fasthttp", "golang.org/x") {
		return "a system uses drivers; if this is one, add it to places in harness/lint"
	}
	return ""
}

// TestImportRulesCatchViolations proves that each rule can fail.
func TestImportRulesCatchViolations(t *testing.T) {
	for _, c := range []struct{ file, target, fix string }{
		{"systems/likes/likes.go", "stampede/systems/flashsale", "stands alone"},
		{"systems/likes/likes_test.go", "stampede/systems/flashsale", "stands alone"},
		{"systems/internal/queue/queue.go", "stampede/systems/sqlbroker", "stands alone"},
		{"systems/likes/likes.go", "stampede/systems", "a system uses harness/sut"},
		{"systems/likes/likes.go", "stampede/harness/run", "a system uses harness/sut"},
		{"systems/likes/likes.go", "stampede/harness/env/processes", "a system uses harness/sut"},
		{"systems/likes/likes.go", "stampede/harness/suttest", "for tests"},
		{"systems/likes/likes.go", "github.com/spf13/cobra", "flags belong to cmd"},
		{"systems/likes/likes.go", "example.org/orm", "a system uses drivers"},
		{"systems/all_gen.go", "stampede/harness/run", "the list of systems"},
		{"reports/page/html.go", "stampede/harness/run", "a report is made of"},
		{"reports/answer/data.go", "stampede/reports/page", "the layers of reports below it"},
		{"reports/page/html.go", "stampede/systems/likes", "a report is made of"},
		{"reports/page/html.go", "github.com/jackc/pgx/v5/pgxpool", "drivers belong to"},
		{"harness/run/run.go", "stampede/systems", "harness knows no system"},
		{"harness/run/run.go", "stampede/scenarios", "harness knows no system"},
		{"harness/rundir/dir.go", "stampede/reports", "harness knows no system"},
		{"harness/rundir/dir.go", "stampede/cmd/stampede", "nothing imports a command"},
		{"harness/load/load.go", "stampede/harness/run", "run stands on all others"},
		{"harness/history/log.go", "stampede/harness/check", "imports nothing of ours"},
		{"harness/history/log.go", "github.com/klauspost/compress/zstd", "standard library alone"},
		{"harness/arrival/a.go", "stampede/harness/keys", "imports only harness/plain"},
		{"harness/keys/a.go", "stampede/harness/plain", "imports nothing of ours"},
		{"harness/check/slo.go", "stampede/harness/sut", "only harness/history"},
		{"harness/sut/sut.go", "stampede/harness/scenario", "only harness/check and"},
		{"harness/load/load.go", "github.com/redis/go-redis/v9", "drivers belong to"},
		{"harness/load/load.go", "github.com/goccy/go-yaml/ast", "decoded by harness/scenario"},
		{"harness/env/env.go", "github.com/testcontainers/testcontainers-go", "env.Provider"},
		{"harness/env/env_test.go", "github.com/moby/moby/client", "env.Provider"},
		{"harness/load/load.go", "github.com/docker/docker/client", "env.Provider"},
		{"harness/run/run.go", "k8s.io/client-go/rest", "env.Engine"},
		{"harness/load/load.go", "gonum.org/v1/plot", "belong to reports"},
		{"harness/load/load.go", "math/rand", "math/rand/v2"},
		{"harness/load/load.go", "testing", "belongs to tests"},
		{"harness/load/load.go", "testing/synctest", "belongs to tests"},
		{"harness/load/load.go", "pgregory.net/rapid", "for tests"},
		{"harness/load/load.go", "C", "static"},
		{"scenarios/scenarios.go", "stampede/harness/scenario", "only embeds"},
		{"tools/x.go", "stampede/harness/sut", "no rule for this folder"},
	} {
		text := fmt.Sprintf("package p\n\nimport (\n\t\"fmt\"\n\t%q\n)\n", c.target)
		s, err := parse(c.file, []byte(text))
		if err != nil {
			t.Fatal(err)
		}
		found := imports(s)
		if len(found) != 1 || found[0].line != 5 || !strings.Contains(found[0].text, c.fix) {
			t.Errorf("%s importing %s: found %v, want %q on line 5", c.file, c.target, found, c.fix)
		}
	}
}

// TestImportRulesAllow proves that the rules do not forbid what is meant.
func TestImportRulesAllow(t *testing.T) {
	for _, c := range []struct{ file, target string }{
		{"systems/likes/redis.go", "github.com/redis/rueidis"},
		{"systems/likes/http.go", "github.com/valyala/fasthttp"},
		{"systems/likes/likes.go", "stampede/systems/likes/internal/crdt"},
		{"systems/likes/likes_test.go", "stampede/harness/suttest"},
		{"systems/all_gen.go", "stampede/systems/likes"},
		{"scenarios/scenarios_test.go", "stampede/systems"},
		{"reports/page/html.go", "stampede/harness/rundir"},
		{"reports/page/html.go", "stampede/reports/answer"},
		{"cmd/stampede/main.go", "stampede/reports/page"},
		{"harness/env/containers/c.go", "github.com/moby/moby/client"},
		{"harness/env/admin/a.go", "github.com/jackc/pgx/v5"},
		{"harness/env/envtest/e.go", "testing"},
		{"harness/run/run.go", "stampede/harness/scenario"},
		{"harness/check/check.go", "stampede/harness/history"},
		{"harness/load/load.go", "math/rand/v2"},
	} {
		text := fmt.Sprintf("package p\n\nimport %q\n", c.target)
		s, err := parse(c.file, []byte(text))
		if err != nil {
			t.Fatal(err)
		}
		if found := imports(s); len(found) != 0 {
			t.Errorf("%s importing %s: %v", c.file, c.target, found)
		}
	}
}
