package run

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"stampede/harness/env"
	"stampede/harness/fault"
	"stampede/harness/history"
	"stampede/harness/sut"
)

// askTimeout bounds asking the stores who they are.
const askTimeout = 30 * time.Second

// identities is who the stores of a variant were before the load. A store that
// was started anew by no fault, or that does not answer in the end, was no
// ground to judge a design on.
type identities struct {
	services *services
	before   map[sut.Service]string
}

// identify asks the stores that a variant needs who they are. There are none to
// ask when a foreign server is judged.
func (s *services) identify(ctx context.Context, v sut.Variant) (*identities, error) {
	i := &identities{services: s, before: map[sut.Service]string{}}
	if s.cluster == nil {
		return i, nil
	}
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	for _, service := range v.Needs {
		identity, err := s.cluster.Component(service).Identity(ctx)
		if err != nil {
			return nil, fmt.Errorf("asking %s for its identity: %w", service, err)
		}
		i.before[service] = identity
	}
	return i, nil
}

// tell asks the stores again and notes what no fault did to them.
func (i *identities) tell(ctx context.Context, t *trial) {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	trouble := []string{}
	for _, service := range slices.Sorted(maps.Keys(i.before)) {
		t.StoresAsked = true
		now, err := i.services.cluster.Component(service).Identity(ctx)
		switch expected, ok := after(i.before[service], service, t.faults); {
		case err != nil:
			trouble = append(trouble, fmt.Sprintf("%s did not answer after the load: %v", service, err))
		case !ok || now != expected:
			trouble = append(trouble, fmt.Sprintf("%s restarted without a fault", service))
		}
	}
	t.StoreTrouble = strings.Join(trouble, "; ")
}

// after is who a store is when the faults, and nothing else, have started it
// anew; false if one of them met another store than the one before it left.
func after(identity string, service sut.Service, faults []history.Window) (string, bool) {
	byStart := slices.SortedFunc(slices.Values(faults), func(a, b history.Window) int {
		return cmp.Compare(a.Start, b.Start)
	})
	for _, w := range byStart {
		var effects fault.Effects
		target := fault.TargetOf(w)
		if target.Whole() != service || json.Unmarshal(w.Effects, &effects) != nil ||
			effects.IdentityAfter == "" {
			continue
		}
		var met bool
		identity, met = replaced(identity, target == service, effects)
		if !met {
			return "", false
		}
	}
	return identity, true
}

// replaced is an identity after a fault that started the whole store anew, or
// one broker of it; false if the fault met another one.
func replaced(identity string, whole bool, effects fault.Effects) (string, bool) {
	if whole {
		return effects.IdentityAfter, effects.IdentityBefore == identity
	}
	members := strings.Split(identity, env.IdentitySeparator)
	i := slices.Index(members, effects.IdentityBefore)
	if i < 0 {
		return "", false
	}
	members[i] = effects.IdentityAfter
	return strings.Join(members, env.IdentitySeparator), true
}
