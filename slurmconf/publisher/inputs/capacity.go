package inputs

import "strings"

// The resources that NVIDIA's device plugin offers on a node: GPUs, shared GPUs (each
// counted several times), and MIG instances by profile.
const (
	resourceGPU       = "nvidia.com/gpu"
	resourceGPUShared = "nvidia.com/gpu.shared"
	resourceMIG       = "nvidia.com/mig-"
)

// maxGPUs bounds the number of GPUs in a Node's capacity.
const maxGPUs = 1024

// Capacity counts the GPUs in a Node's status.capacity. The count is used only if nothing
// else counts the GPUs, because the device plugin can offer shared GPUs and MIG instances
// in any number.
type Capacity struct {
	whole int64
	parts bool
}

// Add counts the quantity of a resource. Resources that are no NVIDIA GPUs do not count.
func (c *Capacity) Add(resource string, quantity int64) {
	switch {
	case quantity <= 0 || quantity > maxGPUs:
	case resource == resourceGPU:
		c.whole = quantity
	case resource == resourceGPUShared || strings.HasPrefix(resource, resourceMIG):
		c.parts = true
	}
}

// GPUs returns how many GPUs there are, or 1 if only parts of GPUs are known.
func (c *Capacity) GPUs() int {
	if c.whole == 0 && c.parts {
		return 1
	}
	return int(c.whole)
}
