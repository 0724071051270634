package dcgm

import (
	"encoding/json"
	"fmt"

	"github.com/quoin-hpc/quoin/topology"
)

// Identities are DCGM's ids of a node's GPUs, as the DCGM probe prints them.
type Identities struct {
	APIVersion string     `json:"apiVersion"`
	Kind       string     `json:"kind"`
	GPUs       []Identity `json:"gpus"`
}

// Identity is one GPU's id in DCGM and its exporter.
type Identity struct {
	UUID string `json:"uuid"`
	ID   int    `json:"id"`
}

const identitiesKind = "DCGMIdentities"

// EncodeIdentities returns the ids as one line of JSON without a newline.
func EncodeIdentities(gpus []Identity) ([]byte, error) {
	ids := Identities{APIVersion: topology.APIVersion, Kind: identitiesKind, GPUs: gpus}
	if err := ids.check(); err != nil {
		return nil, fmt.Errorf("encode DCGM ids: %w", err)
	}
	return json.Marshal(ids)
}

// ParseIdentities reads such a line.
func ParseIdentities(line []byte) ([]Identity, error) {
	var ids Identities
	if err := json.Unmarshal(line, &ids); err != nil {
		return nil, fmt.Errorf("DCGM ids: %w", err)
	}
	if ids.APIVersion != topology.APIVersion || ids.Kind != identitiesKind {
		return nil, fmt.Errorf("DCGM ids: apiVersion %q, kind %q: want %q, %q", ids.APIVersion, ids.Kind, topology.APIVersion, identitiesKind)
	}
	if err := ids.check(); err != nil {
		return nil, fmt.Errorf("DCGM ids: %w", err)
	}
	return ids.GPUs, nil
}

// check refuses an entry that is no GPU, and two GPUs with one id or UUID.
func (ids *Identities) check() error {
	uuids, numbers := make(map[string]bool), make(map[int]bool)
	for i, g := range ids.GPUs {
		switch {
		case !isGPUUUID(g.UUID):
			return fmt.Errorf("gpus[%d].uuid %q: want GPU-…", i, g.UUID)
		case g.ID < 0 || g.ID > 1<<16:
			return fmt.Errorf("gpus[%d].id %d: want 0 to %d", i, g.ID, 1<<16)
		case uuids[g.UUID] || numbers[g.ID]:
			return fmt.Errorf("gpus[%d]: %s, id %d: a GPU before has one of them", i, g.UUID, g.ID)
		}
		uuids[g.UUID], numbers[g.ID] = true, true
	}
	return nil
}
