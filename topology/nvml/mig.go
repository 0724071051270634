//go:build cgo

package nvml

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/NVIDIA/go-nvml/pkg/nvml"

	"github.com/quoin-hpc/quoin/topology"
)

// mig reads the GPU's MIG instances. Slots may be empty.
func (r *reader) mig(root string) {
	mode, _, ret := r.d.GetMigMode()
	if !r.fact("MIG mode", failure(ret)) || mode != nvml.DEVICE_MIG_ENABLE {
		return
	}
	slots, ret := r.d.GetMaxMigDeviceCount()
	if !r.fact("MIG devices", failure(ret)) {
		return
	}
	r.gpu.MIGEmpty = true
	for i := range slots {
		d, ret := r.d.GetMigDeviceHandleByIndex(i)
		if ret == nvml.ERROR_NOT_FOUND || ret == nvml.ERROR_INVALID_ARGUMENT {
			continue
		}
		r.gpu.MIGEmpty = false
		if r.fact(fmt.Sprintf("MIG device %d", i), failure(ret)) {
			r.instance(d)
		}
	}
	slices.SortFunc(r.gpu.MIG, func(a, b topology.MIGInstance) int {
		return cmp.Or(cmp.Compare(a.GPUInstanceID, b.GPUInstanceID), cmp.Compare(a.ComputeInstanceID, b.ComputeInstanceID))
	})
	if len(r.gpu.MIG) > 0 && r.gpu.Minor != nil {
		r.fact("capability files of MIG instances", addCapabilities(&r.gpu, root))
	}
}

// instance reads one MIG instance.
func (r *reader) instance(d nvml.Device) {
	uuid, ret := d.GetUUID()
	if !r.fact("MIG UUID", failure(ret)) {
		return
	}
	gi, ret := d.GetGpuInstanceId()
	if !r.fact("MIG GPU instance id", failure(ret)) {
		return
	}
	ci, ret := d.GetComputeInstanceId()
	if !r.fact("MIG compute instance id", failure(ret)) {
		return
	}
	m := topology.MIGInstance{UUID: uuid, GPUInstanceID: gi, ComputeInstanceID: ci}
	if name, ret := d.GetName(); r.fact("MIG name", failure(ret)) { // "NVIDIA A100-SXM4-40GB MIG 1g.5gb"
		_, m.Profile, _ = strings.Cut(name, " MIG ")
	}
	r.gpu.MIG = append(r.gpu.MIG, m)
	r.places[uuid] = place{device: d, parent: r.d, gi: gi}
}

// addCapabilities adds to each MIG instance its two device files: the file of its GPU
// instance, then its own. The driver lists the minor numbers of all such files by the
// GPU's minor number, in lines such as "gpu0/gi2/ci0/access 22". NVIDIA's container
// runtime does not hide the list. It has thousands of lines.
func addCapabilities(g *topology.GPU, root string) error {
	path := filepath.Join(root, "proc/driver/nvidia-caps/mig-minors")
	data, err := os.ReadFile(path)
	if err != nil {
		return fmt.Errorf("%w; in a container, mount the machine's /proc and set agent.hostRoot to the mount", err)
	}
	list := "\n" + string(data)
	for i := range g.MIG {
		m := &g.MIG[i]
		m.Capabilities, err = capabilitiesOf(list, *g.Minor, m.GPUInstanceID, m.ComputeInstanceID)
		if err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
	}
	return nil
}

// capabilitiesOf returns the device files of a MIG instance by the driver's list.
func capabilitiesOf(list string, gpu, gi, ci int) ([]string, error) {
	var files []string
	for _, key := range []string{fmt.Sprintf("gpu%d/gi%d/access", gpu, gi), fmt.Sprintf("gpu%d/gi%d/ci%d/access", gpu, gi, ci)} {
		number, err := capabilityOf(list, key)
		if err != nil {
			return nil, err
		}
		files = append(files, fmt.Sprintf("/dev/nvidia-caps/nvidia-cap%d", number))
	}
	return files, nil
}

// maxMinor is the largest minor number of a device in Linux.
const maxMinor = 1<<20 - 1

// capabilityOf returns the minor number of one capability. Each line of the list, the
// first too, follows a line break.
func capabilityOf(list, key string) (uint64, error) {
	_, after, found := strings.Cut(list, "\n"+key+" ")
	if !found {
		return 0, errors.New("no line " + key)
	}
	number, _, _ := strings.Cut(after, "\n")
	n, err := strconv.ParseUint(number, 10, 32)
	if err != nil || n > maxMinor {
		return 0, fmt.Errorf("%s: minor number %q: want 0 to %d", key, number, maxMinor)
	}
	return n, nil
}
