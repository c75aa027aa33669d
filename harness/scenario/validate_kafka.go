package scenario

import (
	"fmt"
	"slices"

	"stampede/harness/sut"
)

// kafka checks the settings of Kafka, and leaves them out where nothing uses
// them.
func (v *validation) kafka() {
	k := &v.sc.Stores.Kafka
	path := func(name string) []string { return []string{"stores", "kafka", name} }
	if v.known && !v.systemNeeds(sut.Kafka) {
		if _, found := v.at("stores", "kafka"); found {
			v.reject(fmt.Sprintf("no design of %s needs kafka", v.sys.Name), "no stores.kafka",
				"stores", "kafka")
		}
		*k = sut.KafkaSettings{}
		return
	}
	v.between(k.Replication, 0, k.Brokers, path("replication")...)
	v.between(k.MinInSync, 0, k.Replicas(), path("min_insync")...)
	if k.Idempotence && k.Acks != "all" {
		v.rejectTogether("idempotence needs acks all", "idempotence false, or acks all", path("acks"),
			"stores.kafka.idempotence")
	}
	if k.FetchMinBytes > k.FetchMaxBytes {
		v.rejectTogether(
			fmt.Sprintf("a fetch of at least %d bytes is more than the most", k.FetchMinBytes),
			fmt.Sprintf("at most %d", k.FetchMaxBytes), path("fetch_min_bytes"),
			"stores.kafka.fetch_max_bytes")
	}
}

// systemNeeds says whether any variant of the system needs a service.
func (v *validation) systemNeeds(service sut.Service) bool {
	return slices.ContainsFunc(v.sys.Variants, func(variant sut.Variant) bool {
		return slices.Contains(variant.Needs, service)
	})
}
