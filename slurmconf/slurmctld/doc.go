// Package slurmctld reads what Slurm says of itself: the output of scontrol show
// topology, and a slurm.conf with the files that it includes. CompareShown says where
// Slurm has loaded another topology than a file says.
//
// The package opens no file and starts no program: it is given texts, and a function
// that opens the included files.
package slurmctld
