// Package lint says what slurmctld and slurmd of a given release would say of
// topology.conf, topology.yaml and gres.conf, before they read the files.
//
// Lint judges topologies of blocks, trees and flat ones, the gpu lines of gres.conf beside
// Gres= of slurm.conf, and whether Slurm reads the files at all, by TopologyPlugin and
// GresTypes of slurm.conf. Of everything else it says NotJudged: ring and torus topologies,
// host list functions, sharing flags. OtherGRES names the GRES of which it judges nothing. The verdicts are compared with the real daemons.
// LintSettings judges slurm.conf itself for the job hook.
//
// The package is pure: it opens no file and asks no daemon.
package lint
