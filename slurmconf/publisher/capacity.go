package publisher

import "strings"

// The resources that NVIDIA's device plugin offers on a node: GPUs; GPUs that are
// shared, each several times; and MIG instances, by profile.
const (
	resourceGPU       = "nvidia.com/gpu"
	resourceGPUShared = "nvidia.com/gpu.shared"
	resourceMIG       = "nvidia.com/mig-"
)

// maxGPUs bounds what a Node's capacity may say.
const maxGPUs = 1024

// capacity is what a Node's status.capacity says of its GPUs. It is the last to
// ask: the device plugin offers a shared GPU, and under MIG an instance, as
// whatever it is configured to.
type capacity struct {
	whole int64
	parts bool
}

// isGPU reports whether a resource is NVIDIA GPUs, or parts of them.
func isGPU(resource string) bool {
	return resource == resourceGPU || resource == resourceGPUShared || strings.HasPrefix(resource, resourceMIG)
}

// add takes the quantity of a resource of which isGPU is true.
func (c *capacity) add(resource string, quantity int64) {
	switch {
	case quantity <= 0 || quantity > maxGPUs:
	case resource == resourceGPU:
		c.whole = quantity
	default:
		c.parts = true
	}
}

// gpus returns how many GPUs there are, 1 where only parts are known.
func (c *capacity) gpus() int {
	if c.whole == 0 && c.parts {
		return 1
	}
	return int(c.whole)
}
