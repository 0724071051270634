// Package placement decides where every node of a cluster belongs.
//
// [MakePlan] turns the facts of all nodes, the plan published before and a
// [Policy] into blocks (one per NVLink clique), a switch tree if network tiers
// are known, and the place of every node with its reason.
//
// The package is pure: no clock, environment, files or network. The same
// facts give the same plan whatever their order. It knows nothing of Slurm's
// file formats; package slurmconf writes those.
package placement
