package publisher

import (
	"encoding/json"
	"fmt"

	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// kindSlice is a ResourceSlice among the objects of a list.
const kindSlice = "ResourceSlice"

// isListed reports whether objects of a kind may be among those of a list.
func isListed(kind string) bool {
	return kind == "Node" || kind == "Pod" || kind == kindSlice || isMembership(kind)
}

// isMembership reports whether objects of a kind say who joins an IMEX domain, of
// which nothing counts here.
func isMembership(kind string) bool {
	return kind == "ComputeDomain" || kind == "ComputeDomainClique" || kind == "ResourceClaim"
}

// betaSpec is where the releases of the API before v1beta2 have what is known of a
// device.
type betaSpec struct {
	Devices []struct {
		Basic *struct {
			Attributes map[resourcev1.QualifiedName]resourcev1.DeviceAttribute
			Capacity   map[resourcev1.QualifiedName]resourcev1.DeviceCapacity
		}
	}
}

// addSlice takes a ResourceSlice of NVIDIA's driver. Those of others are passed
// over.
func (l *nodeList) addSlice(o *listed) error {
	s := resourcev1.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Name: o.meta.Name}}
	var beta betaSpec
	for _, spec := range []any{&s.Spec, &beta} {
		if err := json.Unmarshal(o.spec, spec); o.spec != nil && err != nil {
			return fmt.Errorf("ResourceSlice %s: %w", o.meta.Name, err)
		}
	}
	if s.Spec.Driver != gpuDriver {
		return nil
	}
	for i := range s.Spec.Devices {
		if basic := beta.Devices[i].Basic; basic != nil {
			s.Spec.Devices[i].Attributes, s.Spec.Devices[i].Capacity = basic.Attributes, basic.Capacity
		}
	}
	slim, err := slimSlice(&s)
	if gpus, ok := slim.(*gpuSlice); ok {
		l.slices = append(l.slices, gpus)
	}
	return err
}
