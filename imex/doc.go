// Package imex is what makes NVLink between nodes usable for jobs: whether each
// node is a member of its IMEX domain, why not, and what is to be done.
//
// [Judge] is pure: it has no clock, files or network, and the same things seen give
// the same verdicts whatever their order. It judges by a node's own entry, never by
// the state of the whole domain, which is ready when it is empty and not ready for
// everybody when one node anywhere is not.
//
// The other half is for the node itself: its channels and its daemon, and the gate
// file by which the job hook knows whether a job across nodes may start. The package
// is light and knows no Kubernetes, for the hook is built on it.
package imex
