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
	b := &schema.Builder{Docs: docs, Special: special()}
	root, err := b.Of(reflect.ValueOf(Scenario{}))
	if err != nil {
		return nil, err
	}
	addDefaults(root)
	root["required"] = []string{"load", "question", "system"}
	refineTop(root, systems)
	refineLoad(root.Property("load"))
	refineFault(root.Property("faults")["items"].(schema.Schema))
	refineSLO(root.Property("slos")["items"].(schema.Schema))
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

// addDefaults notes the defaults that Decode fills in.
func addDefaults(root schema.Schema) {
	d := defaults()
	root.Property("repeats")["default"] = d.Repeats
	root.Property("load", "max_in_flight")["default"] = d.Load.MaxInFlight
	root.Property("load", "queue")["default"] = d.Load.Queue
	root.Property("load", "timeout")["default"] = d.Load.Timeout
	root.Property("load", "drain")["default"] = d.Load.Drain
	root.Property("stores", "max_conns")["default"] = d.Stores.MaxConns
}

func bounds(low, high any) schema.Schema {
	return schema.Schema{"minimum": low, "maximum": high}
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
	root.Property("name").With(schema.Schema{"pattern": nameForm.String()})
	root.Property("question").With(schema.Schema{"pattern": `\S`})
	root.Property("system").With(enum(names))
	root.Property("profile").With(enum(Profiles()))
	root.Property("repeats").With(bounds(1, maxRepeats))
	root.Property("variants").With(schema.Schema{"uniqueItems": true})
	root.Property("params").With(schema.Schema{"type": "object"})
	root.Property("stores", "max_conns").With(bounds(1, maxConns))
	refineDeploy(root)
	refineKafka(root.Property("stores", "kafka"))
	root.Property("provokes").With(schema.Schema{
		"uniqueItems": true, "items": enum(triggers()).With(schema.Schema{"type": "string"}),
	})
}

func refineLoad(load schema.Schema) {
	load.Property("users").With(bounds(1, maxUsers))
	load.Property("max_in_flight").With(bounds(1, maxInFlight))
	load.Property("queue").With(bounds(0, maxQueue))
	load.Property("min_operations").With(bounds(0, maxOps))
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
	arrival := load.Property("arrival")
	arrival["required"] = []string{"process"}
	arrival.Property("process").With(enum(processes()))
	arrival.Property("rate").With(bounds(0, maxRate))
	arrival.Property("to").With(bounds(0, maxRate))
	arrival.Property("ops").With(bounds(1, maxOps))
	arrival.Property("peak").With(bounds(1, 2))
	step := arrival.Property("steps").With(schema.Schema{"minItems": 1})["items"].(schema.Schema)
	step["required"] = []string{"for", "rate"}
	step.Property("rate").With(bounds(0, maxRate))
	var conditions []schema.Schema
	for _, process := range processes() {
		needs, may := arrivalFields(process)
		known := append([]string{"process"}, append(needs, may...)...)
		then := schema.Schema{"required": needs, "propertyNames": enum(known)}
		if slices.Contains(may, "over_least") {
			then.With(when("over", fitText, schema.Schema{
				"required": []string{"over_least", "over_most"},
			}))
		} else {
			then["properties"] = schema.Schema{"over": schema.Schema{"pattern": durationPattern}}
		}
		conditions = append(conditions, when("process", process, then))
	}
	arrival["allOf"] = conditions
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
	fault["required"] = []string{"at", "kind", "name", "target"}
	fault.Property("name").With(schema.Schema{"pattern": nameForm.String()})
	fault.Property("kind").With(enum(faultKinds()))
	fault.Property("target").With(schema.Schema{"pattern": nameForm.String(),
		"examples": services()})
	refineRoleFields(fault)
	var conditions []schema.Schema
	for _, kind := range faultKinds() {
		then := schema.Schema{}
		forbidden := schema.Schema{}
		needs := []string{"for"}
		if kind != "kill" {
			forbidden["wipe"] = false
		}
		if kind == "power-loss" {
			forbidden["target"] = enum([]string{string(sut.Redis)})
		} else {
			forbidden["loses"] = false
		}
		if kind == "restart" {
			needs, forbidden["for"] = nil, false
		}
		needs = append(needs, refineRoleFault(kind, forbidden)...)
		if kind == "latency" {
			needs = append(needs, "latency")
		} else {
			forbidden["latency"], forbidden["jitter"] = false, false
		}
		then["properties"] = forbidden
		if needs != nil {
			then["required"] = needs
		}
		conditions = append(conditions, when("kind", kind, then))
	}
	fault["allOf"] = conditions
}

func refineSLO(slo schema.Schema) {
	slo["required"] = []string{"name", "objective"}
	slo.Property("name").With(schema.Schema{"pattern": nameForm.String()})
	slo.Property("objective").With(schema.Schema{"pattern": `\S`})
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
	b := &schema.Builder{Docs: docs, Special: special(), Defaults: true}
	params, err := b.Of(reflect.ValueOf(system.Params()).Elem())
	if err != nil {
		return nil, fmt.Errorf("parameters of %s: %w", system.Name, err)
	}
	return params, nil
}

// ofSystem is what holds for the scenarios of one system.
func ofSystem(system sut.System, params schema.Schema) schema.Schema {
	variant := enum(variantNames(system))
	return when("system", system.Name, schema.Schema{
		"properties": schema.Schema{
			"params":   params,
			"variants": schema.Schema{"items": variant},
			"baseline": variant,
			"replicas": schema.Schema{"propertyNames": enum(allRoles(system))},
			"faults":   schema.Schema{"items": targetSchema(system)},
			"profiles": schema.Schema{"properties": eachProfile(system.Name + " profile")},
		},
	})
}

// systemProfile is what holds for a profile of one system's scenarios.
func systemProfile(system sut.System, params schema.Schema) schema.Schema {
	variant := enum(variantNames(system))
	return schema.Schema{
		"properties": schema.Schema{
			"params":   orNull(params.Patch()),
			"variants": schema.Schema{"items": variant},
			"baseline": orNull(variant),
			"replicas": orNull(schema.Schema{"propertyNames": enum(allRoles(system))}),
			"faults":   orNull(schema.Schema{"items": targetSchema(system)}),
		},
	}
}
