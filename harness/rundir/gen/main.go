// Command gen writes harness/rundir/summary.schema.json from the types of the
// summary. It runs in harness/rundir.
package main

import (
	"log"
	"os"

	"stampede/harness/rundir"
	"stampede/harness/schema"
)

func main() {
	log.SetFlags(0)
	docs, err := schema.ReadDocs("stampede", "../..",
		"harness/rundir", "harness/check", "harness/history")
	if err != nil {
		log.Fatal(err)
	}
	text, err := rundir.MakeSchema(docs)
	if err != nil {
		log.Fatal(err)
	}
	if err := os.WriteFile("summary.schema.json", text, 0o644); err != nil {
		log.Fatal(err)
	}
}
