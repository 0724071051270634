package gres

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/quoin-hpc/quoin/topology"
)

// coresOf returns Cores for each GPU of the node. Cores of a GPU are empty if they
// are left out.
//
// Slurm counts cores from socket to socket, and does not count hyperthreads: with N
// cores in each socket, socket i has the cores i*N to (i+1)*N-1. Cores must be whole
// sockets, so they are the socket of the GPU's CPU affinity.
//
// Cores are left out if the affinity is unknown, does not fit the sockets, or spans
// sockets: a GPU without Cores is near to all sockets. Slurm 26.05 drains a node if
// Cores are more than one socket but not all. All Cores are left out if sockets
// differ in size.
func coresOf(shape nodeShape, gpus []topology.GPU) []string {
	out := make([]string, len(gpus))
	if shape.sockets < 2 {
		return out
	}
	for i := range gpus {
		near := shape.near(gpus[i].CPUAffinity)
		at := slices.IndexFunc(near, func(cpus int) bool { return cpus > 0 })
		if at >= 0 && !slices.ContainsFunc(near[at+1:], func(cpus int) bool { return cpus > 0 }) {
			out[i] = coreRange(at*shape.cores, shape.cores)
		}
	}
	return out
}

// nodeShape is a node's processors as slurmd counts them: cores of a socket, threads of a core, and the
// socket of every CPU. It is zero if it is unknown.
type nodeShape struct {
	sockets, cores, threads int
	of                      map[int]int
}

// shapeOf returns the node's shape. It is zero if something is unknown or sockets differ.
func shapeOf(sockets []topology.Socket) nodeShape {
	shape := nodeShape{of: map[int]int{}}
	for i, s := range sockets {
		cpus, ok := ParseCPUs(s.CPUs)
		if !ok || s.Cores < 1 || len(cpus)%s.Cores != 0 {
			return nodeShape{}
		}
		threads := len(cpus) / s.Cores
		if i > 0 && (s.Cores != shape.cores || threads != shape.threads) {
			return nodeShape{}
		}
		shape.sockets, shape.cores, shape.threads = len(sockets), s.Cores, threads
		for _, cpu := range cpus {
			if _, twice := shape.of[cpu]; twice {
				return nodeShape{}
			}
			shape.of[cpu] = i
		}
	}
	return shape
}

// cpus is how many CPUs a socket has.
func (s *nodeShape) cpus() int { return s.cores * s.threads }

// near counts the CPUs of each socket that a GPU is next to. It returns nil if that is not known.
func (s *nodeShape) near(affinity string) []int {
	cpus, ok := ParseCPUs(affinity)
	if !ok || s.sockets == 0 {
		return nil
	}
	slices.Sort(cpus)
	near := make([]int, s.sockets)
	for _, cpu := range slices.Compact(cpus) {
		at, ok := s.of[cpu]
		if !ok {
			return nil
		}
		near[at]++
	}
	return near
}

// FitSockets reports whether slurmctld takes the cores of a GPU: one whole socket, or all. taken counts
// them by socket, and each is how many a socket has. Before Slurm 25.05 several sockets fit too.
func FitSockets(taken []int, each int, several bool) bool {
	whole := 0
	for _, n := range taken {
		if n == each {
			whole++
		} else if n > 0 {
			return false
		}
	}
	return several || whole <= 1 || whole == len(taken)
}

func coreRange(from, cores int) string {
	if cores == 1 {
		return fmt.Sprint(from)
	}
	return fmt.Sprintf("%d-%d", from, from+cores-1)
}

// maxCPUs bounds what a CPU list may name.
const maxCPUs = 1 << 16

// ParseCPUs reads a list of Linux CPU numbers such as "0-35,72-107". An empty
// list is not ok.
func ParseCPUs(list string) (cpus []int, ok bool) {
	for part := range strings.SplitSeq(list, ",") {
		low, high, isRange := strings.Cut(part, "-")
		if !isRange {
			high = low
		}
		lo, errLow := strconv.ParseUint(low, 10, 64)
		hi, errHigh := strconv.ParseUint(high, 10, 64)
		if errLow != nil || errHigh != nil || hi < lo || hi >= maxCPUs || len(cpus) > maxCPUs {
			return nil, false
		}
		for cpu := lo; cpu <= hi; cpu++ {
			cpus = append(cpus, int(cpu))
		}
	}
	return cpus, true
}

// linksOf returns Links for each GPU of the node, in the order of GRES indices: the
// number of NVLink lanes to each GPU, and -1 for the GPU itself.
//
// Links are nil behind NVSwitches, because every GPU is equally near there, and with
// MIG, because a device is no GPU there. They are also nil if no two GPUs are joined,
// if a link leads to a GPU that the node does not report, or if a GPU's links are not
// known.
func linksOf(gpus []topology.GPU) [][]int {
	at := make(map[string]int, len(gpus))
	for i := range gpus {
		at[strings.ToLower(gpus[i].PCIBusID)] = i
	}
	joined := false
	links := make([][]int, len(gpus))
	for i := range gpus {
		links[i] = make([]int, len(gpus))
		links[i][i] = -1
		own := gpus[i].Links
		if len(gpus[i].MIG) > 0 || own == nil || own.Switch > 0 {
			return nil
		}
		for _, to := range own.GPUs {
			k, ok := at[strings.ToLower(to.PCIBusID)]
			if !ok || k == i || to.PCIBusID == "" {
				return nil
			}
			links[i][k] += to.Count
			joined = true
		}
	}
	if !joined {
		return nil
	}
	return links
}
