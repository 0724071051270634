// Package inputs turns what a cluster shows of its nodes into the facts that a plan is
// made from.
//
// A Snapshot holds Node objects, parsed reports, Slinky's worker pods and ResourceSlices.
// Rules say which of the nodes a publication takes and how Slurm calls them. Rules and a
// Snapshot give Inputs: facts by Slurm name, and the nodes that have no name, with the
// reason. ReadNodes makes a Snapshot from the output of kubectl get -o json.
//
// The package has no clock and no network. It changes no Snapshot.
package inputs
