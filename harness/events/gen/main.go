// Command gen writes harness/events/events.schema.json from the types of the
// events. It runs in harness/events.
package main

import (
	"log"
	"os"

	"stampede/harness/events"
	"stampede/harness/schema"
)

func main() {
	log.SetFlags(0)
	docs, err := schema.ReadDocs("stampede", "../..", "harness/events", "harness/rundir",
		"harness/check", "harness/history")
	if err != nil {
		log.Fatal(err)
	}
	text, err := events.MakeSchema(docs)
	if err != nil {
		log.Fatal(err)
	}
	if err := os.WriteFile("events.schema.json", text, 0o644); err != nil {
		log.Fatal(err)
	}
}
