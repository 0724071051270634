package nodeagent

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"github.com/quoin-hpc/quoin/topology"
)

// seenGPUs are the GPUs that the node has had: their PCI addresses by UUID. The stored report keeps them for the
// next agent: the GPUs that are there, and a problem for each missing GPU.
type seenGPUs map[string]string

// noAddress stands for an address that was never read.
const noAddress = "unknown"

// take remembers the GPUs of a report, and the GPUs that the report says are missing.
func (s seenGPUs) take(n *topology.Node) {
	for i := range n.GPUs {
		s[n.GPUs[i].UUID] = cmp.Or(n.GPUs[i].PCIBusID, noAddress)
	}
	for _, p := range n.Problems {
		if uuid, address, is := readMissing(p); is && s[uuid] == "" {
			s[uuid] = address
		}
	}
}

// recall remembers the GPUs of an earlier agent's report. A report that has none of the present
// GPUs belongs to another machine of the same name.
func (s seenGPUs) recall(stored, now *topology.Node) {
	if same := func(g topology.GPU) bool { return stored.Has(g.UUID) }; len(now.GPUs) == 0 || slices.ContainsFunc(now.GPUs, same) {
		s.take(stored)
	}
}

// missing returns a problem of each GPU that the report of now lacks. It forgets one whose place another
// GPU has taken.
func (s seenGPUs) missing(now *topology.Node) (found []topology.Finding) {
	for _, uuid := range slices.Sorted(maps.Keys(s)) {
		address := s[uuid]
		switch {
		case now.Has(uuid):
		case slices.ContainsFunc(now.GPUs, func(g topology.GPU) bool { return g.PCIBusID == address }):
			delete(s, uuid)
		default:
			found = append(found, missingProblem(uuid, address))
		}
	}
	return found
}

// missingMessage begins the message of a missing GPU's problem.
const missingMessage = "GPU %s at PCI address %s "

// missingProblem returns the problem of a GPU that was there before.
func missingProblem(uuid, address string) topology.Finding {
	return topology.Finding{Reason: topology.ReasonGPUMissing, Message: fmt.Sprintf(missingMessage+
		"was there in an earlier report, and is not there now: read dmesg; if the GPU was taken or left out for good, delete the NodeReport and restart the agent", uuid, address)}
}

// readMissing reads back what missingProblem has written. A report has no other place for a GPU that it lacks.
func readMissing(p topology.Finding) (uuid, address string, is bool) {
	_, err := fmt.Sscanf(p.Message, missingMessage, &uuid, &address)
	return uuid, address, err == nil && p.Reason == topology.ReasonGPUMissing
}
