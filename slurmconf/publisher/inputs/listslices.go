package inputs

import (
	"encoding/json"
	"fmt"

	resourcev1 "k8s.io/api/resource/v1"
)

// kindSlice is the kind of a ResourceSlice.
const kindSlice = "ResourceSlice"

// isListed reports whether objects of a kind may be in a list. Claims and ComputeDomains
// say who joins an IMEX domain. They are for ListReader.Each alone.
func isListed(kind string) bool {
	switch kind {
	case "Node", "Pod", kindSlice, "ResourceClaim", "ComputeDomain", "ComputeDomainClique":
		return true
	}
	return false
}

// addSlice takes a ResourceSlice of NVIDIA's driver and skips those of other drivers.
func (l *list) addSlice(o *object) error {
	var s resourcev1.ResourceSlice
	s.Name = o.node.Name
	if err := json.Unmarshal(o.spec, &s.Spec); o.spec != nil && err != nil {
		return fmt.Errorf("ResourceSlice %s: %w", o.node.Name, err)
	}
	if s.Spec.Driver == GPUDriver {
		slice := SliceOf(&s)
		l.slices = append(l.slices, &slice)
	}
	return nil
}
