// Package dcgm writes the job mapping directory that DCGM Exporter reads, and
// the files by which the job hook knows this node's GPUs: the inventory and the
// hook's configuration, written by the agent, and the records of jobs, written
// by the hook.
//
// The exporter reads the directory at any moment, without a lock, and fails a
// whole scrape over a file that vanishes or a line it cannot print. So nothing
// is ever truncated or unlinked in place: a file is made in a folder beside and
// renamed over, a GPU is released by renaming an empty file over. A line is
// written only if it is a job id of harmless characters.
package dcgm
