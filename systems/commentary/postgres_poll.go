package commentary

// postgresPoll reads the rows each time.
//
// The idea: a comment goes to Postgres, and whoever looks is read the newest thirty from there.
// Nobody keeps anything.
//
// The guarantee: what is acknowledged is kept, and seen by everyone who looks from then on.
//
// It gives up: that viewers cost little. Each look is a query and a whole answer, whether or not
// anything was said.
func postgresPoll() variant {
	return inPostgres(variant{Name: "postgres_poll",
		Idea:       "whoever looks is read the newest comments from Postgres",
		Guarantees: "what is acknowledged is kept, and seen at once",
		GivesUp:    "a query and a whole answer for each look, whether or not anything was said",
	}, rowsPlan())
}

// rowsPlan reads rows.
func rowsPlan() plan { return plan{look: inRows, within: atOnce, cache: noStore} }
