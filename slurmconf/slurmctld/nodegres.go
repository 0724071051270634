package slurmctld

import "github.com/quoin-hpc/quoin/slurmconf/gres"

// GPUs are the gpus that the node's Gres= counts, by Type. It is an error if Gres= cannot be read.
func (n *Node) GPUs() ([]gres.GPUCount, error) { return gres.ReadGPUCounts(n.Gres) }
