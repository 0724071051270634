package adapters

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// pciPath is the way from a root port to a device: the PCI functions from the root port to
// the device itself, such as 0000:15:01.0 0000:16:00.0 0000:17:00.0 0000:18:00.0.
type pciPath []string

var (
	pciRoot     = regexp.MustCompile(`^pci[0-9a-f]+:[0-9a-f]{2}$`)
	pciFunction = regexp.MustCompile(`^[0-9a-f]+:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]$`)
)

// pathOf returns the path in the target of a link of sysfs, such as
// ../../devices/pci0000:15/0000:15:01.0/0000:18:00.0/infiniband/mlx5_0. It is nil unless the
// link leads to a PCI function, or to a device whose parent is one.
func pathOf(target string) pciPath {
	parts := strings.Split(target, "/")
	if n := len(parts); n > 2 && parts[n-2] == "infiniband" {
		parts = parts[:n-2]
	}
	var path pciPath
	for i := len(parts) - 1; i >= 0; i-- {
		switch {
		case pciFunction.MatchString(parts[i]):
			path = append(path, parts[i])
		case pciRoot.MatchString(parts[i]):
			slices.Reverse(path)
			return path
		default:
			return nil
		}
	}
	return nil
}

// busID returns the device in the form of NVML, such as 00000000:18:00.0.
func (p pciPath) busID() string {
	domain, rest, _ := strings.Cut(p[len(p)-1], ":")
	return strings.ToUpper(strings.Repeat("0", max(8-len(domain), 0)) + domain + ":" + rest)
}

// shared returns how many PCI bridges, root port and switches, two devices have in common.
func (p pciPath) shared(q pciPath) (n int) {
	for n < len(p)-1 && n < len(q)-1 && p[n] == q[n] {
		n++
	}
	return n
}

// nearest returns the devices that share most bridges with p. There are none if no device
// shares one.
func (p pciPath) nearest(devices []pciPath) (busIDs []string) {
	most := 1
	for _, d := range devices {
		n := p.shared(d)
		if len(d) == 0 || n < most {
			continue
		}
		if n > most {
			most, busIDs = n, nil
		}
		if len(busIDs) < maxGPUs {
			busIDs = append(busIDs, d.busID())
		}
	}
	return busIDs
}

// displayClass begins the PCI class of a GPU: it is a display controller also without a display.
const displayClass = "0x03"

// gpuPaths returns where the GPUs of NVIDIA's driver are on PCI. The driver lists them, also one that
// NVML does not show. Functions of SR-IOV are not among them: they are parts of a GPU, for virtual
// machines.
func gpuPaths(sys string) (paths []pciPath) {
	dir := filepath.Join(sys, "bus/pci/drivers/nvidia")
	entries, _ := os.ReadDir(dir) // without the driver there is no GPU
	for _, e := range entries {
		device := filepath.Join(dir, e.Name())
		if !pciFunction.MatchString(e.Name()) || exists(filepath.Join(device, "physfn")) {
			continue
		}
		if class, err := textOf(device, "class"); err == nil && !strings.HasPrefix(class, displayClass) {
			continue
		}
		if target, err := os.Readlink(device); err == nil {
			paths = append(paths, pathOf(target))
		}
	}
	return paths
}

// GPUs returns the PCI addresses of these GPUs in the form of NVML. sys is where the machine's sysfs is
// mounted.
func GPUs(sys string) (busIDs []string) {
	for _, p := range gpuPaths(sys) {
		if len(p) > 0 {
			busIDs = append(busIDs, p.busID())
		}
	}
	return busIDs
}
