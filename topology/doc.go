// Package topology is the model of a GPU cluster and the plan made from it.
//
// A [Node] is what is known of one machine: its GPUs, their NVLink fabric, its
// place in the rack. [Facts] join a Node with what its Kubernetes labels say.
// [MakePlan] turns the facts of all nodes, the plan published before and a
// [Policy] into blocks (one per NVLink clique), a switch tree where network
// tiers are known, and for every node where it is and why.
//
// The package is pure: no clock, environment, files or network. The same
// facts give the same plan whatever their order. It knows nothing of Slurm's
// file formats; package slurmconf writes those.
package topology
