// Command gen writes harness/knee/knee.schema.json from the types of knee.json.
// It runs in harness/knee.
package main

import (
	"log"

	"stampede/harness/knee"
	"stampede/harness/schema"
)

func main() {
	log.SetFlags(0)
	err := schema.Generate("knee.schema.json", "../..", knee.MakeSchema,
		"harness/knee", "harness/rundir")
	if err != nil {
		log.Fatal(err)
	}
}
