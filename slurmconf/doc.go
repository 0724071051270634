// Package slurmconf writes and reads the text files that tell Slurm where its nodes
// and GPUs are: topology.conf, topology.yaml and gres.conf. It makes them from a plan
// and from facts, and knows what each release takes.
//
// The package is pure: text in, text out. It opens no file, reads no clock and asks
// no network. It names an Include line and does not follow it. It does not decide
// where a node belongs: package placement does. Package lint judges the files.
package slurmconf
