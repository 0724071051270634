package slurmconf

import (
	"strings"

	"github.com/quoin-hpc/quoin/topology"
)

// linksOf returns Links for each GPU of the node, in the order of its GRES
// indices: how many NVLink lanes it has to each of them, -1 for itself.
//
// They are nil behind NVSwitches, where every GPU is as near as every other; with
// MIG, where a device is no GPU; where no two GPUs are joined; and where a link
// leads to a GPU that the node does not report.
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
		if len(gpus[i].MIG) > 0 {
			return nil
		}
		for _, l := range gpus[i].NVLinks {
			switch l.Remote {
			case "switch":
				return nil
			case "gpu":
				k, ok := at[strings.ToLower(l.RemotePCIBusID)]
				if !ok || k == i || l.RemotePCIBusID == "" {
					return nil
				}
				links[i][k]++
				joined = true
			}
		}
	}
	if !joined {
		return nil
	}
	return links
}
