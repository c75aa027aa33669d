package scenario

// overlay applies a profile to a tree as a JSON merge patch (RFC 7396) does:
// mappings merge field by field, anything else replaces, and null removes a
// field. Neither argument is changed; the result's nodes keep their places.
func overlay(base, patch *node) *node {
	if patch == nil {
		return base.clone()
	}
	if patch.kind != mapping {
		return patch.clone()
	}
	merged := &node{kind: mapping, where: patch.where, key: patch.key, origin: patch.origin}
	if base != nil && base.kind == mapping {
		merged = base.clone()
	}
	for _, f := range patch.fields {
		if f.value.kind == null {
			merged.remove(f.name)
			continue
		}
		merged.set(f.name, overlay(merged.get(f.name), f.value))
	}
	return merged
}
