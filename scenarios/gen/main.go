// Command gen writes scenarios/schema.json from the scenario's types and the
// parameters of every system. It runs in scenarios.
package main

import (
	"log"

	"stampede/harness/scenario"
	"stampede/harness/schema"
	"stampede/systems"
)

func main() {
	log.SetFlags(0)
	of := func(docs schema.Docs) ([]byte, error) { return scenario.Schema(systems.All(), docs) }
	err := schema.Generate("schema.json", "..", of,
		"harness/scenario")
	if err != nil {
		log.Fatal(err)
	}
}
