// Package slurmctld reads what Slurm says of itself: the output of scontrol show
// topology, and a slurm.conf with the files that it includes. CompareShown lists
// where Slurm's topology is not the one of a file.
//
// The package opens no file and starts no program: it is given texts, and a function
// that opens the included files.
package slurmctld
