// Command gen writes harness/knee/knee.schema.json from the types of knee.json.
// It runs in harness/knee.
package main

import (
	"log"
	"os"

	"stampede/harness/knee"
	"stampede/harness/schema"
)

func main() {
	log.SetFlags(0)
	docs, err := schema.ReadDocs("stampede", "../..", "harness/knee", "harness/rundir")
	if err != nil {
		log.Fatal(err)
	}
	text, err := knee.MakeSchema(docs)
	if err != nil {
		log.Fatal(err)
	}
	if err := os.WriteFile("knee.schema.json", text, 0o644); err != nil {
		log.Fatal(err)
	}
}
