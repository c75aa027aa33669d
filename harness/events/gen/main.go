// Command gen writes harness/events/events.schema.json from the types of the
// events. It runs in harness/events.
package main

import (
	"log"

	"stampede/harness/events"
	"stampede/harness/schema"
)

func main() {
	log.SetFlags(0)
	err := schema.Generate("events.schema.json", "../..", events.MakeSchema,
		"harness/events", "harness/rundir", "harness/check", "harness/history")
	if err != nil {
		log.Fatal(err)
	}
}
