// Command gen writes reports/compare.schema.json from the types of a comparison. It runs
// in reports.
package main

import (
	"log"

	"stampede/harness/schema"
	"stampede/reports"
)

func main() {
	log.SetFlags(0)
	err := schema.Generate("compare.schema.json", "..", reports.MakeComparisonSchema,
		"reports", "harness/rundir", "harness/check")
	if err != nil {
		log.Fatal(err)
	}
}
