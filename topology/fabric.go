package topology

import (
	"bytes"
	"cmp"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// UUID is the 16 bytes that NVML reports as ClusterUuid. All zero: the GPU has no
// multi-node NVLink.
type UUID [16]byte

// IsZero reports whether u is the all-zero UUID.
func (u UUID) IsZero() bool { return u == UUID{} }

// Hex returns the 32 hex digits of u without dashes.
func (u UUID) Hex() string { return hex.EncodeToString(u[:]) }

// String returns u in its 8-4-4-4-12 form.
func (u UUID) String() string { return string(u.appendTo(make([]byte, 0, 36))) }

func (u UUID) appendTo(text []byte) []byte {
	text = hex.AppendEncode(text, u[:4])
	for _, part := range [...][]byte{u[4:6], u[6:8], u[8:10], u[10:]} {
		text = hex.AppendEncode(append(text, '-'), part)
	}
	return text
}

// MarshalText implements encoding.TextMarshaler.
func (u UUID) MarshalText() ([]byte, error) { return []byte(u.String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (u *UUID) UnmarshalText(text []byte) (err error) {
	*u, err = ParseUUID(string(text))
	return err
}

// ParseUUID reads the 8-4-4-4-12 form, upper or lower case. The all-zero UUID
// is accepted; callers that need a domain check IsZero.
func ParseUUID(s string) (UUID, error) {
	if len(s) == 36 && s[8] == '-' && s[13] == '-' && s[18] == '-' && s[23] == '-' {
		raw, err := hex.DecodeString(s[:8] + s[9:13] + s[14:18] + s[19:23] + s[24:])
		if err == nil {
			return UUID(raw), nil
		}
	}
	return UUID{}, fmt.Errorf("UUID %q: want 8-4-4-4-12 hex digits", s)
}

// Clique identifies one NVLink domain: the GPUs that can share memory.
type Clique struct {
	ClusterUUID UUID
	ID          uint32
}

// IsZero reports whether c names no domain.
func (c Clique) IsZero() bool { return c == Clique{} }

// CliqueLabel is the Node label in which GPU Feature Discovery writes the clique of
// a node's GPUs.
const CliqueLabel = "nvidia.com/gpu.clique"

// String returns the form of CliqueLabel: "<cluster UUID>.<clique id>".
func (c Clique) String() string {
	const longest = 36 + len(".4294967295")
	text := c.ClusterUUID.appendTo(make([]byte, 0, longest))
	return string(strconv.AppendUint(append(text, '.'), uint64(c.ID), 10))
}

// MarshalText implements encoding.TextMarshaler.
func (c Clique) MarshalText() ([]byte, error) { return []byte(c.String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (c *Clique) UnmarshalText(text []byte) (err error) {
	*c, err = ParseClique(string(text))
	return err
}

// Compare orders cliques by cluster UUID, then by number.
func (c Clique) Compare(d Clique) int {
	if n := bytes.Compare(c.ClusterUUID[:], d.ClusterUUID[:]); n != 0 {
		return n
	}
	return cmp.Compare(c.ID, d.ID)
}

// ErrNoDomain is ParseClique's error for a value that means no NVLink domain: an
// all-zero UUID, or N/A in any form.
var ErrNoDomain = errors.New("no NVLink domain")

// ParseClique reads a clique in the form "<cluster UUID>.<clique id>". A zero UUID
// and N/A in any form are ErrNoDomain. Any other value is an error that says what
// is wanted.
func ParseClique(s string) (Clique, error) {
	c, err := parseClique(s)
	if err != nil && (strings.Contains(strings.ToUpper(strings.ReplaceAll(s, "_", "/")), "N/A") || strings.EqualFold(s, "NA.NA")) {
		return Clique{}, fmt.Errorf("clique %q: %w", s, ErrNoDomain)
	}
	return c, err
}

func parseClique(s string) (Clique, error) {
	head, tail, ok := strings.Cut(s, ".")
	if !ok {
		return Clique{}, fmt.Errorf("clique %q: want <cluster UUID>.<clique id>", s)
	}
	u, err := ParseUUID(head)
	if err != nil {
		return Clique{}, fmt.Errorf("clique %q: want <cluster UUID>.<clique id>: %w", s, err)
	}
	id, err := strconv.ParseUint(tail, 10, 32)
	if err != nil || (len(tail) > 1 && tail[0] == '0') || tail[0] == '+' {
		return Clique{}, fmt.Errorf("clique %q: want a clique id of 0 to 4294967295 after the dot", s)
	}
	if u.IsZero() {
		return Clique{}, fmt.Errorf("clique %q: all-zero cluster UUID: %w", s, ErrNoDomain)
	}
	return Clique{ClusterUUID: u, ID: uint32(id)}, nil
}

// NVLinkDomain is the clique that all GPUs of a node have joined, or None. It is
// zero if the GPUs do not agree, or not yet.
type NVLinkDomain struct {
	Clique Clique
	// None: NVLink joins no GPU of the node with another node's.
	None bool
}

// noDomain is the text form of a domain that is none.
const noDomain = "none"

// IsZero reports whether nothing is known.
func (d NVLinkDomain) IsZero() bool { return d == NVLinkDomain{} }

// String returns the clique's form, or "none".
func (d NVLinkDomain) String() string {
	if d.None {
		return noDomain
	}
	return d.Clique.String()
}

// MarshalText implements encoding.TextMarshaler.
func (d NVLinkDomain) MarshalText() ([]byte, error) { return []byte(d.String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (d *NVLinkDomain) UnmarshalText(text []byte) error {
	if string(text) == noDomain {
		*d = NVLinkDomain{None: true}
		return nil
	}
	*d = NVLinkDomain{}
	if err := d.Clique.UnmarshalText(text); err != nil {
		return fmt.Errorf("%w, or %s", err, noDomain)
	}
	return nil
}

// FabricState is the state of a GPU's registration with its NVLink fabric
// (nvmlGpuFabricInfo_t.state).
type FabricState string

// The states of a fabric registration.
const (
	FabricNotSupported FabricState = "notSupported"
	FabricNotStarted   FabricState = "notStarted"
	FabricInProgress   FabricState = "inProgress"
	FabricCompleted    FabricState = "completed"
)

// Health is the fabric's summary (nvmlGpuFabricInfo_v3_t.healthSummary). An
// unhealthy GPU stays in its clique.
type Health string

// The values of a fabric's health summary. Empty means that the driver does
// not report it.
const (
	HealthHealthy         Health = "healthy"
	HealthUnhealthy       Health = "unhealthy"
	HealthLimitedCapacity Health = "limitedCapacity"
)

// Fabric is what NVML reports of a GPU's NVLink fabric. ClusterUUID and
// CliqueID mean something only when State is completed and Status is empty.
type Fabric struct {
	ClusterUUID UUID        `json:"clusterUUID,omitzero"`
	CliqueID    uint32      `json:"cliqueID"`
	State       FabricState `json:"state"`
	// Status is the NVML error that a completed registration ended with, empty
	// for success.
	Status string `json:"status,omitempty"`
	Health Health `json:"health,omitempty"`
	// HealthFields are the details that Health sums up.
	HealthFields FabricHealth `json:"healthFields,omitzero"`
}

// FabricHealth holds the fields of NVML's health mask
// (nvmlGpuFabricInfo_v3_t.healthMask). Fields that the driver does not support are
// absent.
type FabricHealth struct {
	DegradedBandwidth *bool `json:"degradedBandwidth,omitempty"`
	// RouteRecovery and AccessTimeoutRecovery are true while one is in progress.
	RouteRecovery         *bool `json:"routeRecovery,omitempty"`
	RouteUnhealthy        *bool `json:"routeUnhealthy,omitempty"`
	AccessTimeoutRecovery *bool `json:"accessTimeoutRecovery,omitempty"`
	PartitionAssigned     *bool `json:"partitionAssigned,omitempty"`
	// IncorrectConfiguration is "none", or what is wrong, such as "noPartition".
	IncorrectConfiguration string `json:"incorrectConfiguration,omitempty"`
}

// IsZero reports whether nothing is known of the fabric.
func (f *Fabric) IsZero() bool { return *f == Fabric{} }

func (f *Fabric) validate() error {
	states := []FabricState{FabricNotSupported, FabricNotStarted, FabricInProgress, FabricCompleted}
	healths := []Health{"", HealthHealthy, HealthUnhealthy, HealthLimitedCapacity}
	switch {
	case f.IsZero():
		return nil
	case !slices.Contains(states, f.State):
		return fmt.Errorf("fabric.state: %q: want notSupported, notStarted, inProgress or completed", f.State)
	case !slices.Contains(healths, f.Health):
		return fmt.Errorf("fabric.health: %q: want healthy, unhealthy or limitedCapacity", f.Health)
	}
	return nil
}

// Standing is what one GPU's fabric state means. Verdicts go by the standing, not by the words of the state.
type Standing uint8

// The standings.
const (
	GPUUnread Standing = iota
	GPUJoined
	GPUInProgress
	GPUNotStarted
	GPUFailed
	GPUNone
)

// Standing returns what the state of a GPU means.
func (f *Fabric) Standing() Standing {
	switch f.State {
	case FabricNotSupported:
		return GPUNone
	case FabricNotStarted:
		return GPUNotStarted
	case FabricInProgress:
		return GPUInProgress
	case FabricCompleted:
		switch {
		case f.Status != "":
			return GPUFailed
		case f.ClusterUUID.IsZero():
			return GPUNone
		}
		return GPUJoined
	}
	return GPUUnread
}

// Supported reports whether NVML says that the GPU has a fabric.
func (f *Fabric) Supported() bool { return f.State != "" && f.State != FabricNotSupported }

// Clique returns the domain that the GPU has joined, false if it has joined none.
func (f *Fabric) Clique() (Clique, bool) {
	if f.Standing() != GPUJoined {
		return Clique{}, false
	}
	return Clique{ClusterUUID: f.ClusterUUID, ID: f.CliqueID}, true
}

// Joined returns the NVLink domain that all of the node's GPUs have joined, or None
// if all have none to join. It is zero if a GPU's registration is in progress,
// failed or unread, or if two GPUs differ. None is what the GPUs say; package fabric says whether
// that is believed.
func (n *Node) Joined() NVLinkDomain {
	var joined NVLinkDomain
	for i := range n.GPUs {
		f := &n.GPUs[i].Fabric
		c, ok := f.Clique()
		d := NVLinkDomain{Clique: c, None: f.Standing() == GPUNone}
		if !ok && !d.None || i > 0 && d != joined {
			return NVLinkDomain{}
		}
		joined = d
	}
	return joined
}
