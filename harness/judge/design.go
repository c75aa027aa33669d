package judge

import (
	"context"
	"slices"

	"stampede/harness/scenario"
	"stampede/harness/sut"
)

// TargetName is the name under which a foreign server is judged.
const TargetName = "target"

// Target makes a variant of a server that somebody else wrote. Its client has a
// folder if any design keeps files.
func Target(s sut.System, url string, without map[string]string) sut.Variant {
	return sut.Variant{
		Name: TargetName, Idea: "a server of your own", NotApplicable: without,
		Guarantees: "judged from its API alone", GivesUp: "not known",
		KeepsFiles: slices.ContainsFunc(s.Variants, func(v sut.Variant) bool { return v.KeepsFiles }),
		Open: func(_ context.Context, cfg sut.Config) (sut.Instance, error) {
			return s.Target(url, cfg)
		},
	}
}

// Feels says whether a fault can be felt by a variant: it uses the store, or has
// the role, which passes the place.
func Feels(v sut.Variant, f scenario.Fault) bool {
	whole := sut.Service(f.Target).Whole()
	if v.Name == TargetName {
		return true
	}
	if whole.Store() {
		return slices.Contains(v.Needs, whole)
	}
	places, has := v.PlacesOf(string(whole))
	return has && (f.Place == "" || slices.Contains(places, f.Place)) &&
		(f.From == "" || slices.Contains(v.Needs, sut.Service(f.From)))
}
