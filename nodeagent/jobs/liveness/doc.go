// Package liveness decides whether a job still lives on this node. The evidence is
// the sockets and control groups of the job's steps and the children of slurmd; the
// answer is a verdict for each run. If nothing can be
// known of a job, the job lives on. The package never ends a job that is seen.
package liveness
