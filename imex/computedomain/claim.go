package computedomain

import (
	"encoding/json"
	"slices"

	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"
	nvapi "sigs.k8s.io/dra-driver-nvidia-gpu/api/nvidia.com/resource/v1beta1"
)

// claimFacts are the facts of a ResourceClaim for a channel.
type claimFacts struct {
	domain    string // UID, empty if the claim names none
	allocated bool
	node      string // of the allocation
	reserved  []podRef
}

// podRef names one pod among all that have had its name.
type podRef struct {
	name string
	uid  types.UID
}

// readClaim reads a ResourceClaim for a channel; others are not kept.
func readClaim(obj any) (claimFacts, bool) {
	claim, ok := obj.(*resourcev1.ResourceClaim)
	if !ok {
		return claimFacts{}, false
	}
	domain, channel := channelOf(claim)
	if !channel {
		return claimFacts{}, false
	}
	out := claimFacts{domain: domain}
	for _, r := range claim.Status.ReservedFor {
		out.reserved = append(out.reserved, podRef{r.Name, r.UID})
	}
	if a := claim.Status.Allocation; a != nil {
		out.allocated, out.node = true, allocatedOn(a)
	}
	return out, true
}

// channelOf returns the domain whose channel a claim asks for, if it asks for one. The claim's
// device class says so, or the driver's configuration in the claim.
func channelOf(claim *resourcev1.ResourceClaim) (domain string, channel bool) {
	channel = slices.ContainsFunc(claim.Spec.Devices.Requests, func(r resourcev1.DeviceRequest) bool {
		return r.Exactly != nil && r.Exactly.DeviceClassName == channelClass ||
			slices.ContainsFunc(r.FirstAvailable, func(s resourcev1.DeviceSubRequest) bool { return s.DeviceClassName == channelClass })
	})
	var configs []resourcev1.DeviceConfiguration
	for _, c := range claim.Spec.Devices.Config {
		configs = append(configs, c.DeviceConfiguration)
	}
	if a := claim.Status.Allocation; a != nil { // it has the configuration of the class too
		for _, c := range a.Devices.Config {
			configs = append(configs, c.DeviceConfiguration)
		}
	}
	for _, c := range configs {
		if c.Opaque == nil || c.Opaque.Driver != driverName {
			continue
		}
		if id, ok := parseChannelConfig(c.Opaque.Parameters.Raw); ok {
			return id, true
		}
	}
	return "", channel
}

// parseChannelConfig reads the domain's UID from a ComputeDomainChannelConfig. It
// refuses the driver's other kinds: the kind of a daemon's claim names a domain too.
func parseChannelConfig(raw []byte) (domain string, ok bool) {
	var c struct {
		Kind     string `json:"kind"`
		DomainID string `json:"domainID"`
	}
	if json.Unmarshal(raw, &c) != nil || c.Kind != nvapi.ComputeDomainChannelConfigKind {
		return "", false
	}
	return c.DomainID, true
}

// allocatedOn returns the node of an allocation. Each device of the driver belongs to
// one node, which gives the device's pool its name.
func allocatedOn(a *resourcev1.AllocationResult) string {
	for _, r := range a.Devices.Results {
		if r.Driver == driverName {
			return r.Pool
		}
	}
	return ""
}
