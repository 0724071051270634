// Package slurmconf writes and reads the text files that tell Slurm where its
// nodes are: host lists, topology.conf, topology.yaml, gres.conf, and what
// `scontrol show topology` prints. Lint says beforehand what slurmctld of a
// given release would refuse, and why.
//
// The package is pure: text in, text out. It opens no file, reads no clock and
// asks no network; an Include line is named and not followed. It does not
// decide where a node belongs, that is package topology's work.
package slurmconf
