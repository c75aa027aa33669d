// Command gen writes scenarios/schema.json from the scenario's types and the
// parameters of every system. It runs in scenarios.
package main

import (
	"log"
	"os"

	"stampede/harness/scenario"
	"stampede/harness/schema"
	"stampede/systems"
)

func main() {
	log.SetFlags(0)
	docs, err := schema.ReadDocs("stampede", "..", "harness/scenario")
	if err != nil {
		log.Fatal(err)
	}
	text, err := scenario.Schema(systems.All(), docs)
	if err != nil {
		log.Fatal(err)
	}
	if err := os.WriteFile("schema.json", text, 0o644); err != nil {
		log.Fatal(err)
	}
}
