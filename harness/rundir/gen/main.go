// Command gen writes harness/rundir/summary.schema.json from the types of the
// summary. It runs in harness/rundir.
package main

import (
	"log"

	"stampede/harness/rundir"
	"stampede/harness/schema"
)

func main() {
	log.SetFlags(0)
	err := schema.Generate("summary.schema.json", "../..", rundir.MakeSchema,
		"harness/rundir", "harness/check", "harness/history")
	if err != nil {
		log.Fatal(err)
	}
}
