// Package topology is the model of a GPU node.
//
// A [Node] is what is known of one machine: its GPUs, their NVLink fabric, its
// place in the rack. A report is a Node as JSON. [Facts] join a Node with what
// its Kubernetes labels say.
//
// The package is pure: no clock, environment, files or network. It decides
// nothing; package placement makes the plan.
package topology
