package sut

// Calibration says under which loads the costs of a system's models show. Each load adds
// something to those before it whose costs they have not found yet.
type Calibration struct {
	// Statements maps costs of Postgres to how their statements begin, as pg_stat_statements has
	// them but with single blanks, in lower case: "with cart". CPU time is split by them
	// where a load finds several costs at once.
	Statements map[string][]string
	Loads      []CalibrationLoad
	// HeldOut are the parameters of loads with which predictions are checked: a mixture that no
	// load of the calibration has.
	HeldOut string
}

// CalibrationLoad finds costs.
type CalibrationLoad struct {
	Name string
	// Params are the parameters that make the load, as YAML: "{units: 1}".
	Params string
	// Finds are costs of Postgres. A design whose model does not need one of them is
	// calibrated without.
	Finds []string
}
