package admin_test

import (
	"strings"
	"testing"

	"stampede/harness/env/admin"
)

// TestQuoteLog: the line that says why is quoted, though a stack and a long way out
// came after it.
func TestQuoteLog(t *testing.T) {
	if got := admin.QuoteLog(""); got != "" {
		t.Errorf("an empty log is quoted as %q", got)
	}
	log := []string{"INFO starting", "ERROR unable to register with the quorum (Lifecycle)",
		"java.lang.RuntimeException: cancelled", "\tat kafka.Server.start(Server.scala:1)",
		"\tat kafka.Kafka.main(Kafka.scala:97)", "\t... 3 more"}
	for range 20 {
		log = append(log, "INFO shutting down")
	}
	got := admin.QuoteLog(strings.Join(append(log, "INFO shut down"), "\n"))
	want := "; its log ends:\n  ERROR unable to register with the quorum (Lifecycle)\n" +
		"  java.lang.RuntimeException: cancelled\n  ...\n" +
		strings.Repeat("  INFO shutting down\n", 7) + "  INFO shut down"
	if got != want {
		t.Errorf("quoted as\n%s\nwant\n%s", got, want)
	}
}
