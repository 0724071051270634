// Package publisher is the cluster side: it merges reports with Node labels,
// plans, renders, lints and publishes one set of files per Slurm cluster, then
// annotates the Nodes.
//
// It writes only when bytes differ, and only files that were parsed back and
// linted for the release that loads them. On any doubt the last good files
// stay: it never publishes an empty plan, holds back a step that moves more
// nodes than the publication allows until somebody approves its digest, and
// says why in the publication's annotations, an event and a metric.
package publisher
