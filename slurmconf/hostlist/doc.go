// Package hostlist reads and writes Slurm's host lists, such as n[001-018,020].
// Expand gives the names in Slurm's order, Compress gives the list that Slurm
// would write, and CheckName says whether a text names exactly one node.
//
// The package is pure. Both directions are compared with `scontrol show
// hostnames` and `scontrol show hostlistsorted`. Host list functions such as
// block{b1} are not resolved: their text is returned as a name.
package hostlist
