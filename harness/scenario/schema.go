package scenario

import (
	"fmt"
	"net/url"
	"reflect"
	"slices"

	"stampede/harness/schema"
	"stampede/harness/sut"
)

// SchemaID is the identifier of the schema of scenario files.
const SchemaID = "https://stampede.invalid/schema/scenario.json"

// durationPattern matches what time.ParseDuration takes, with a unit and
// without a sign.
const durationPattern = `^\+?(([0-9]+(\.[0-9]*)?|\.[0-9]+)(ns|us|µs|μs|ms|s|m|h))+$`

// overPattern matches what Over takes besides.
const overPattern = durationPattern + "|^" + fitText + "$"

// Schema makes the JSON Schema of scenario files for these systems. It says
// of the shape of a file what Decode says, field by field; what depends on
// several values at once, such as a fault after the end of load, only Decode
// finds.
func Schema(systems []sut.System, docs schema.Docs) ([]byte, error) {
	b := &schema.Builder{Docs: docs, Special: special(), Defaults: true}
	root, err := b.Of(reflect.ValueOf(defaults()))
	if err != nil {
		return nil, err
	}
	root["required"] = append(root["required"].([]string), "system")
	refineTop(root, systems)
	refineLoad(root.Property("load"))
	refineFault(root.Property("faults")["items"].(schema.Schema))
	profile := profileSchema(root)
	conditions := []schema.Schema{notBoth("profile", "profiles")}
	definitions := schema.Schema{"profile": profile}
	for _, system := range systems {
		params, err := paramsSchema(system, docs)
		if err != nil {
			return nil, err
		}
		definitions[system.Name+" profile"] = systemProfile(system, params)
		conditions = append(conditions, ofSystem(system, params))
	}
	root["$defs"] = definitions
	properties := root["properties"].(schema.Schema)
	properties["profiles"] = schema.Schema{
		"type":                 "object",
		"description":          "what each profile changes: a merge patch (RFC 7396) to the rest",
		"additionalProperties": false,
		"properties":           eachProfile("profile"),
	}
	root["allOf"] = conditions
	return root.Encode(SchemaID, "stampede scenario")
}

// special describes the types that decode themselves.
func special() map[reflect.Type]schema.Schema {
	return map[reflect.Type]schema.Schema{
		reflect.TypeFor[sut.Duration](): {
			"type": "string", "pattern": durationPattern, "examples": []string{"500ms", "2s"},
		},
		reflect.TypeFor[Over](): {
			"type": "string", "pattern": overPattern, "examples": []string{fitText, "2s"},
		},
		// A setting of a store may be written as any scalar.
		reflect.TypeFor[map[string]string](): {
			"type":                 "object",
			"additionalProperties": schema.Schema{"type": []string{"string", "number", "boolean"}},
		},
	}
}

func enum(names []string) schema.Schema { return schema.Schema{"enum": names} }

// notBoth forbids two fields beside each other.
func notBoth(a, b string) schema.Schema {
	return schema.Schema{"not": schema.Schema{"required": []string{a, b}}}
}

func refineTop(root schema.Schema, systems []sut.System) {
	names := make([]string, len(systems))
	for i, system := range systems {
		names[i] = system.Name
	}
	root.Property("system").With(enum(names))
	root.Property("profile").With(enum(Profiles()))
	root.Property("variants").With(schema.Schema{"uniqueItems": true})
	root.Property("params").With(schema.Schema{"type": "object"})
	root.Property("replicas")["additionalProperties"] = schema.Schema{
		"type": "integer", "minimum": minReplicas, "maximum": maxReplicas,
	}
	root.Property("provokes").With(schema.Schema{
		"uniqueItems": true, "items": enum(triggers()).With(schema.Schema{"type": "string"}),
	})
}

func refineLoad(load schema.Schema) {
	load["oneOf"] = []schema.Schema{
		{
			"title": "open loop", "required": []string{"arrival"},
			"properties": schema.Schema{"users": false, "think": false, "duration": false},
		},
		{
			"title": "closed loop", "required": []string{"duration", "users"},
			"properties": schema.Schema{"arrival": false},
		},
	}
	arrivalShapes().refine(load.Property("arrival"), func(process string, then schema.Schema) {
		if process == "burst" {
			then.With(when("over", fitText, schema.Schema{
				"required": []string{"over_least", "over_most"},
			}))
		} else {
			then["properties"] = schema.Schema{"over": schema.Schema{"pattern": durationPattern}}
		}
	})
}

// when applies a schema where a field has a value.
func when(field, value string, then schema.Schema) schema.Schema {
	return schema.Schema{
		"if": schema.Schema{
			"properties": schema.Schema{field: schema.Schema{"const": value}},
			"required":   []string{field},
		},
		"then": then,
	}
}

func refineFault(fault schema.Schema) {
	fault.Property("target")["examples"] = services()
	faultShapes().refine(fault, func(kind string, then schema.Schema) {
		switch {
		case OnlyTarget(kind) != "":
			then["properties"] = schema.Schema{"target": enum([]string{string(OnlyTarget(kind))})}
		case slices.Contains(onlyRoleKinds(), kind):
			then["properties"] = schema.Schema{"target": schema.Schema{"not": enum(services())}}
		}
	})
}

// profileSchema is what any profile may change, before the systems' own part.
func profileSchema(root schema.Schema) schema.Schema {
	profile := root.Patch()
	properties := profile["properties"].(schema.Schema)
	for _, fixed := range fixedInProfiles() {
		delete(properties, fixed)
	}
	delete(profile, "description")
	return profile
}

// eachProfile lets every profile be what a definition says, or empty.
func eachProfile(definition string) schema.Schema {
	all := schema.Schema{}
	for _, name := range Profiles() {
		reference := schema.Schema{"$ref": "#/$defs/" + url.PathEscape(definition)}
		all[name] = orNull(reference)
	}
	return all
}

func orNull(s schema.Schema) schema.Schema {
	return schema.Schema{"anyOf": []schema.Schema{s, {"type": "null"}}}
}

func paramsSchema(system sut.System, docs schema.Docs) (schema.Schema, error) {
	b := &schema.Builder{Docs: docs, Special: special(), Defaults: true, Zeros: true}
	params, err := b.Of(reflect.ValueOf(system.Params()).Elem())
	if err != nil {
		return nil, fmt.Errorf("parameters of %s: %w", system.Name, err)
	}
	return params, nil
}

// ofSystem is what holds for the scenarios of one system.
func ofSystem(system sut.System, params schema.Schema) schema.Schema {
	properties := systemProperties(system, params, func(s schema.Schema) schema.Schema { return s })
	properties["profiles"] = schema.Schema{"properties": eachProfile(system.Name + " profile")}
	return when("system", system.Name, schema.Schema{"properties": properties})
}

// systemProfile is what holds for a profile of one system's scenarios.
func systemProfile(system sut.System, params schema.Schema) schema.Schema {
	return schema.Schema{"properties": systemProperties(system, params.Patch(), orNull)}
}

// systemProperties are what depends on the system. What a profile may set back is nullable.
func systemProperties(
	system sut.System, params schema.Schema, nullable func(schema.Schema) schema.Schema,
) schema.Schema {
	variant := enum(variantNames(system))
	return schema.Schema{
		"params":   nullable(params),
		"variants": schema.Schema{"items": variant},
		"baseline": nullable(variant),
		"replicas": nullable(schema.Schema{"propertyNames": enum(allRoles(system))}),
		"faults":   nullable(schema.Schema{"items": targetSchema(system)}),
	}
}
