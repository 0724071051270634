// Package imex says whether each node is a member of its IMEX domain, why not, and
// what to do. IMEX makes NVLink between nodes usable for jobs.
//
// [Judge] is pure: it has no clock, files or network. The same observations give the
// same verdicts, whatever their order. It judges by a node's own entry and never by
// the state of the whole domain: an empty domain is ready, and one bad node anywhere
// makes the domain not ready.
package imex
