// Package lint says what slurmctld and slurmd of a given release would say of
// topology.conf, topology.yaml and gres.conf, before they read the files.
//
// Lint judges topologies of blocks, trees and flat ones, the gpu lines of gres.conf beside
// Gres= of slurm.conf, and whether Slurm reads the files at all, by TopologyPlugin and
// GresTypes of slurm.conf. Of slurm.conf itself it judges the keys of lines NodeName and
// PartitionName, keys about topologies and GRES, and the values of a few settings. LintSettings
// judges more of them for the job hook. Judge also counts the nodes whose GPUs agree. Of everything
// else Lint says NotJudged: ring and torus topologies, host list functions, sharing flags. OtherGRES
// names the GRES of which it judges nothing but their names. The verdicts are compared with the real
// daemons.
//
// The package is pure: it opens no file and asks no daemon.
package lint
