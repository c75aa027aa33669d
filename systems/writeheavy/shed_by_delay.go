package writeheavy

import "stampede/systems/internal/shed"

// shedByDelay sheds by CoDel: by how long adds wait, and not by how many.
//
// The idea: a queue that is emptied now and then is good, whatever its length; one in which every
// add has waited for a while is bad, and is thinned out until it is not.
//
// The guarantee: that of row_at_a_time. A burst passes, a load that stays too high does not.
//
// It gives up: classes, for it sheds whoever is the oldest; and the first moments of an overload.
func shedByDelay() variant {
	return shedding(variant{Name: "shed_by_delay",
		Idea:    "CoDel: the oldest add is refused while all have waited for too long",
		GivesUp: "classes: an important add is shed as any other",
	}, alike, func(p Params) *shed.Gate {
		// Clients do not slow down, so that an interval of the paper's length would shed too little.
		return shed.CoDel(p.ShedLimit, p.Queue, p.ShedTarget.D()/4, p.ShedTarget.D()/2)
	})
}
