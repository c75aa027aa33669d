package reports_test

import (
	"bytes"
	"strings"
	"testing"

	"stampede/reports"
)

func render(t testing.TB, d reports.Data) string {
	t.Helper()
	var out bytes.Buffer
	if err := reports.HTML(&out, d); err != nil {
		t.Fatalf("HTML: %v", err)
	}
	return out.String()
}

func TestHTMLTitleSaysTheVerdict(t *testing.T) {
	page := render(t, fixture{designs: flashSale(), repeats: 1, ops: 2000}.build(t))
	want := "<title>PASS · flash-sale-100k · 14 variants · 2026-11-21</title>"
	if !strings.Contains(page, want) {
		t.Errorf("no %s in the page", want)
	}
}
