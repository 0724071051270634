//go:build cgo

package hostengine

import (
	"fmt"
	"strings"

	godcgm "github.com/NVIDIA/go-dcgm/pkg/dcgm"

	"github.com/quoin-hpc/quoin/dcgm"
)

// Read returns the ids of all GPUs that the host engine knows: at host, host:port
// or the path of its socket. It may be called once in a process, whose end closes what
// it has opened.
func Read(address string) ([]dcgm.Identity, error) {
	socket := "0"
	if strings.HasPrefix(address, "/") {
		socket = "1"
	}
	// After an error here no other call may be made.
	if _, err := godcgm.Init(godcgm.Standalone, address, socket); err != nil {
		return nil, fmt.Errorf("reach DCGM's host engine at %s: %w", address, err)
	}
	ids, err := godcgm.GetEntityGroupEntities(godcgm.FE_GPU)
	if err != nil {
		return nil, fmt.Errorf("list the GPUs of DCGM: %w", err)
	}
	if len(ids) == 0 {
		return nil, nil
	}
	return identities(ids)
}

// identities reads the UUIDs. GetDeviceInfo would also make the host engine watch
// fields that nobody here needs.
func identities(ids []uint) ([]dcgm.Identity, error) {
	entities := make([]godcgm.GroupEntityPair, len(ids))
	for i, id := range ids {
		entities[i] = godcgm.GroupEntityPair{EntityGroupId: godcgm.FE_GPU, EntityId: id}
	}
	values, err := godcgm.EntitiesGetLatestValues(entities, []godcgm.Short{godcgm.DCGM_FI_DEV_GPU_UUID}, godcgm.DCGM_FV_FLAG_LIVE_DATA)
	if err != nil {
		return nil, fmt.Errorf("read the UUIDs of DCGM's GPUs: %w", err)
	}
	var out []dcgm.Identity
	for i := range values {
		v := &values[i]
		// A lost or detached GPU has no UUID now.
		if uuid := v.String(); v.Status == 0 && strings.HasPrefix(uuid, "GPU-") {
			out = append(out, dcgm.Identity{UUID: uuid, ID: int(v.EntityID)})
		}
	}
	return out, nil
}
