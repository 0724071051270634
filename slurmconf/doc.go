// Package slurmconf writes and reads the text files that tell Slurm where its nodes
// are: topology.conf and topology.yaml. It makes them from a plan, and knows what each
// release takes. Package gres does the same for gres.conf.
//
// The package is pure: text in, text out. It opens no file, reads no clock and asks
// no network. It names an Include line and does not follow it. It does not decide
// where a node belongs: package placement does. Package lint judges the files.
package slurmconf
