package suttest

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// BenchRounds is how often a benchmark measures each side of a comparison.
const BenchRounds = 3

// Compare measures ours and a peer that does the same work on the same stores, in turns, and
// reports the medians, their ratio, the aim for it, and whether it was met. It is the whole of a
// benchmark, of which one iteration is one comparison.
func Compare(b *testing.B, peer string, aim float64, ours, theirs func() float64) {
	b.Helper()
	for b.Loop() {
		var mine, other []float64
		for range BenchRounds {
			mine, other = append(mine, ours()), append(other, theirs())
		}
		b.ReportMetric(Median(mine), "ours/s")
		b.ReportMetric(Median(other), peer+"/s")
		ratio := Median(mine) / Median(other)
		b.ReportMetric(ratio, "ratio")
		b.ReportMetric(aim, "aim")
		b.ReportMetric(Met(ratio >= aim), "met")
	}
}

// Tell reports, as a benchmark of its own, metrics that were measured before it.
func Tell(b *testing.B, name string, metrics map[string]float64) {
	b.Helper()
	b.Run(name, func(b *testing.B) {
		for b.Loop() {
			b.ReportMetric(0, "ns/op")
		}
		for unit, value := range metrics {
			b.ReportMetric(value, unit)
		}
	})
}

// Met is 1 where an aim was met. Missing one fails nothing: the machine decides.
func Met(yes bool) float64 {
	if yes {
		return 1
	}
	return 0
}

// Median is the middle of some rounds.
func Median(rounds []float64) float64 {
	slices.Sort(rounds)
	return rounds[len(rounds)/2]
}

// Tool finds a peer on PATH or where distributions put it.
func Tool(b *testing.B, name, elsewhere string) string {
	b.Helper()
	if path, err := exec.LookPath(name); err == nil {
		return path
	}
	found, err := filepath.Glob(elsewhere)
	if err != nil || len(found) == 0 {
		b.Fatalf("%s is not installed", name)
	}
	return found[len(found)-1]
}

// Output runs a peer, for a minute at most, and returns what it said.
func Output(b *testing.B, env []string, name string, args ...string) string {
	b.Helper()
	ctx, cancel := context.WithTimeout(b.Context(), time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Env = append(os.Environ(), env...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		b.Fatalf("%s: %v\n%s\n%s", name, err, out, stderr.String())
	}
	return string(out)
}

// RedisBenchmark returns a round in which redis-benchmark sends a command over some connections to
// a database of a server, host:port, with random numbers for __rand_int__, and which measures
// commands a second.
func RedisBenchmark(
	b *testing.B, server string, db, conns int, command ...string,
) func() float64 {
	b.Helper()
	peer := Tool(b, "redis-benchmark", "/usr/bin/redis-benchmark")
	host, port, _ := strings.Cut(server, ":")
	args := append([]string{"-h", host, "-p", port, "-n", "200000", "-c", strconv.Itoa(conns),
		"-r", "1000000000", "--dbnum", strconv.Itoa(db), "--csv"}, command...)
	return func() float64 {
		return Figure(b, Output(b, nil, peer, args...), `(?m)^"`+command[0]+`[^"]*","([0-9.]+)"`)
	}
}

// Figure finds a number in a peer's output.
func Figure(b *testing.B, text, pattern string) float64 {
	b.Helper()
	match := regexp.MustCompile(pattern).FindStringSubmatch(text)
	if match == nil {
		b.Fatalf("no %s in:\n%s", pattern, text)
	}
	n, err := strconv.ParseFloat(match[1], 64)
	if err != nil {
		b.Fatal(err)
	}
	return n
}
