package env

import (
	"context"
	"fmt"
	"slices"
	"strings"
)

// Choose picks a backend by name. Auto takes containers when they are
// available, else local processes, and never the user's own servers. The
// reason is one line that says which backend it is and why.
func Choose(ctx context.Context, want string, spec Spec, providers ...Provider) (
	chosen Provider, reason string, err error) {
	switch want {
	case "", Auto:
		return chooseAuto(ctx, spec, providers)
	case Containers, Processes, External:
	default:
		return nil, "", fmt.Errorf("unknown backend %q: expected %s, %s, %s or %s",
			want, Auto, Containers, Processes, External)
	}
	p := providerOf(providers, want)
	if p == nil {
		return nil, "", fmt.Errorf("backend %s is not part of this program", want)
	}
	ok, why := p.Available(ctx, spec)
	switch {
	case ok:
		return p, fmt.Sprintf("%s, as asked for: %s", want, why), nil
	case want == External: // what is missing there is not on this machine
		return nil, "", fmt.Errorf("backend %s: %s", want, why)
	}
	return nil, "", fmt.Errorf("backend %s: %s; `stampede doctor` says what is missing", want, why)
}

// providerOf is the provider of a name, nil if there is none.
func providerOf(providers []Provider, name string) Provider {
	i := slices.IndexFunc(providers, func(p Provider) bool { return p.Name() == name })
	if i < 0 {
		return nil
	}
	return providers[i]
}

func chooseAuto(ctx context.Context, spec Spec, providers []Provider) (Provider, string, error) {
	var refusals []string
	for _, want := range []string{Containers, Processes} {
		p := providerOf(providers, want)
		if p == nil {
			continue
		}
		ok, why := p.Available(ctx, spec)
		if ok {
			return p, autoReason(want, why, refusals), nil
		}
		refusals = append(refusals, want+": "+why)
	}
	return nil, "", fmt.Errorf("no backend can start %s (%s); `stampede doctor --fix` installs what "+
		"is missing, or give --backend external with URLs", names(spec), strings.Join(refusals, "; "))
}

func autoReason(name, why string, refusals []string) string {
	reason := fmt.Sprintf("%s: %s", name, why)
	if len(refusals) > 0 {
		reason += " (not " + strings.Join(refusals, "; not ") + ")"
	}
	return reason
}

func names(spec Spec) string {
	var list []string
	for _, service := range spec.Services {
		list = append(list, string(service))
	}
	return strings.Join(list, " and ")
}

// Sweeper is a provider that can remove what dead runs have left behind.
type Sweeper interface {
	Provider
	// Sweep removes leftovers whose owner is dead and names each of them. It
	// never touches what a living run uses. A dry one names what it would remove,
	// and removes nothing.
	Sweep(ctx context.Context, dry bool) (removed []string, err error)
}
